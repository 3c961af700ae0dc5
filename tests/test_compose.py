"""docker-compose.yml: Docker's own tool accepts it, nothing in it has rights that it does not need, and all that it names is
there."""

import re
import subprocess

import pytest

from tests.compose import DOCKERFILE, FILE, PROJECT, entrypoint_of, of_profile, services
from tests.parts import require_program

PROFILES = ("reverse", "transparent")
SERVICES = services()
ENDS = {"authority", "redirect"}
"""Services that do one thing and end."""
TALKS_ONLY = {"clients", "application"}
"""Services that serve nobody, so that nothing could be asked about their health."""


def test_it_is_accepted() -> None:
    compose = require_program("docker-compose", "apt-get install docker-compose")
    profiles = (option for profile in PROFILES for option in ("--profile", profile))
    command = (compose, "--file", str(FILE), *profiles, "config", "--services")
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert set(answer.stdout.split()) == set(SERVICES) == of_profile("reverse") | of_profile("transparent")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_that_it_does_not_need(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service.get("cap_add", []) == (["NET_ADMIN"] if name == "redirect" else [])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "ipc", "devices"} & service.keys()
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert service.get("user", "10001").partition(":")[0] not in ("0", "root")
    if "build" in service:
        assert service["read_only"] is True


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].rpartition(":")
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_says_whether_it_is_healthy_and_waits_for_those_that_are(name: str) -> None:
    service = SERVICES[name]
    assert ("healthcheck" in service) is (name not in ENDS | TALKS_ONLY)
    assert (service["restart"] == "no") is (name in ENDS)
    for other, how in service.get("depends_on", {}).items():
        expected = "service_completed_successfully" if other in ENDS else "service_healthy"
        assert how == {"condition": expected}
        assert all(other in of_profile(profile) for profile in PROFILES if name in of_profile(profile))


def test_what_is_mounted_and_copied_is_there() -> None:
    mounted = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.M)
    files = [source for source in mounted if source.startswith(".")]
    files += [file for line in copied for file in line.split()]
    assert len(files) > 8
    assert [file for file in files if not (PROJECT / file).exists()] == []


def test_the_key_of_the_authority_is_where_the_sidecar_is_and_nowhere_else() -> None:
    with_key = {name for name, service in SERVICES.items() if any("confdir:" in m for m in service.get("volumes", []))}
    assert with_key == {"sidecar", "authority", "sidecar-transparent"}


def test_the_image_runs_as_the_user_that_the_redirect_lets_through() -> None:
    text = DOCKERFILE.read_text()
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.M)
    assert text.rstrip().splitlines()[-2] == 'ENTRYPOINT ["sidecar"]'
    assert entrypoint_of("redirect") == ["nft"]
    assert f"--uid {user} " in text
    assert f"meta skuid != {user} " in (PROJECT / "docs" / "deploy" / "pod.nft").read_text()
    assert SERVICES["application"]["user"].partition(":")[0] != user
