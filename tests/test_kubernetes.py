"""docs/deploy/kubernetes/: valid to Kubernetes' own schemas, and consistent with themselves and with the program."""

from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from sidecar.cli import cli
from sidecar.config import Settings, load_settings
from sidecar.modes import modes_of
from tests.compose import PROJECT, entrypoint_of

DEPLOY = PROJECT / "docs" / "deploy"
FILES = {file.stem: list(yaml.safe_load_all(file.read_text())) for file in (DEPLOY / "kubernetes").glob("*.yaml")}
OBJECTS = [
    pytest.param(found, id=f"{name}-{found['kind']}") for name, documents in FILES.items() for found in documents
]
FOREIGN = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}
"""Kinds of the Prometheus operator, which Kubernetes has no schema of; where their endpoints are."""
CONFDIR = "/home/sidecar/.mitmproxy"


def pod_of(name: str) -> dict[str, Any]:
    """The pod that a file describes."""
    (found,) = [each for each in FILES[name] if each["kind"] in ("Deployment", "DaemonSet")]
    pod: dict[str, Any] = found["spec"]["template"]
    return pod


def containers(name: str) -> dict[str, dict[str, Any]]:
    spec = pod_of(name)["spec"]
    return {each["name"]: each for each in [*spec.get("initContainers", []), *spec["containers"]]}


def ports_of(name: str) -> dict[str, int]:
    return {p["name"]: p["containerPort"] for each in containers(name).values() for p in each.get("ports", [])}


def settings_of(name: str, folder: Path) -> Settings:
    """What `sidecar run` makes of the container's arguments, environment and file."""
    container = containers(name)["llm-sidecar"]
    environment = {each["name"]: each["value"] for each in container.get("env", [])}
    command, *arguments = container["args"]
    assert command == "run"
    run = cli.get_command(click.Context(cli), command)
    assert run is not None
    flags = run.make_context(command, list(arguments)).params
    flags.pop("config")
    file = None
    if "SIDECAR_CONFIG" in environment:
        (mapped,) = [each for each in FILES[name] if each["kind"] == "ConfigMap"]
        file = folder / Path(environment["SIDECAR_CONFIG"]).name
        file.write_text(mapped["data"][file.name])
    return load_settings(file=file, environment=environment, flags=flags)


def test_there_are_three() -> None:
    assert set(FILES) == {"sidecar", "transparent", "node"}


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("found", OBJECTS)
def test_it_is_valid(found: dict[str, Any], version: str) -> None:
    if found["kind"] in FOREIGN:
        assert found["apiVersion"] == "monitoring.coreos.com/v1"
        assert found["metadata"]["name"] == "llm-sidecar"
        return
    kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize("name", FILES)
def test_the_program_takes_what_it_is_started_with(name: str, tmp_path: Path) -> None:
    settings = settings_of(name, tmp_path)
    assert modes_of(settings)
    ports = ports_of(name)
    assert settings.metrics_listen == f"0.0.0.0:{ports['llm-metrics']}"
    assert ports["llm-metrics"] == int(Settings().metrics_listen.rpartition(":")[2])
    if name == "sidecar":
        (base_url,) = [each["value"] for each in containers(name)["app"]["env"] if each["name"] == "OPENAI_BASE_URL"]
        assert base_url == f"http://{settings.listen}/v1"
        assert settings.listen == Settings().listen
    if name == "node":
        assert settings.listen == f"0.0.0.0:{ports['llm-proxy']}"


@pytest.mark.parametrize("name", FILES)
def test_names_within_a_file_match(name: str) -> None:
    pod, ports = pod_of(name), ports_of(name)
    labels = pod["metadata"]["labels"].items()
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    for container in containers(name).values():
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            how = container.get(probe, {})
            port = (how.get("httpGet") or how.get("tcpSocket") or {}).get("port")
            assert port is None or port in ports
    services = [each for each in FILES[name] if each["kind"] == "Service"]
    for service in services:
        assert service["spec"]["selector"].items() <= labels
        assert all(port["port"] == ports[port["targetPort"]] for port in service["spec"]["ports"])
    (monitor,) = [each for each in FILES[name] if each["kind"] in FOREIGN]
    (endpoint,) = monitor["spec"][FOREIGN[monitor["kind"]]]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    if monitor["kind"] == "PodMonitor":
        assert wanted <= labels
        assert endpoint["port"] in ports
    else:
        (selected,) = [each for each in services if wanted <= each["metadata"]["labels"].items()]
        assert endpoint["port"] in [port["name"] for port in selected["spec"]["ports"]]
    assert endpoint["path"] == "/metrics"
    assert {"targetLabel": "job", "replacement": "llm-sidecar"} in endpoint["relabelings"]  # up{job="llm-sidecar"}


@pytest.mark.parametrize("name", FILES)
def test_rights(name: str) -> None:
    pod = pod_of(name)["spec"]
    for container in containers(name).values():
        if not container["name"].startswith("llm-"):
            continue
        rights = pod.get("securityContext", {}) | container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        redirects = container["name"] == "llm-redirect"
        assert rights["capabilities"] == {"drop": ["ALL"], **({"add": ["NET_ADMIN"]} if redirects else {})}
        assert rights["runAsUser"] == (0 if redirects else 10001)
        if not redirects:
            assert rights["runAsNonRoot"] is True
            writes = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert {CONFDIR, "/tmp"} <= writes


def test_nothing_is_redirected_before_the_sidecar_is_there_and_the_key_stays_with_it() -> None:
    found = containers("transparent")
    assert list(found) == ["llm-authority", "llm-sidecar", "llm-redirect", "app"]
    assert found["llm-sidecar"]["restartPolicy"] == "Always"
    assert "startupProbe" in found["llm-sidecar"]
    mounted = {name: {m["name"] for m in each.get("volumeMounts", [])} for name, each in found.items()}
    assert [name for name, names in mounted.items() if "llm-sidecar-confdir" in names] == [
        "llm-authority",
        "llm-sidecar",
    ]
    assert mounted["app"] == {"llm-authority"}
    assert f"--set=confdir={CONFDIR}" in found["llm-sidecar"]["args"]
    assert found["llm-authority"]["args"] == ["authority", "/authority", f"--confdir={CONFDIR}"]
    assert entrypoint_of("sidecar") == ["sidecar"]
    trusted = {each["name"] for each in found["app"]["env"]}
    page = (DEPLOY / "transparent.md").read_text()
    assert all(f"export {name}=" in page for name in trusted)
