"""Network namespaces of a test's own: a client and a server, joined by a third one that routes. Needs root."""

import contextlib
import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.parts import require_program

CLIENT_SIDE = "vc0"
"""The router's interface towards the client, as docs/deploy/transparent.md has it."""
CLIENT = "10.77.1.2"
SERVER, SERVER6 = "10.77.2.2", "fd77:2::2"
NAME, NAME6 = "llm.test", "llm6.test"
"""What the server is called where the client resolves names, by IPv4 and by IPv6."""
APP, SIDECAR = "app", "llm-sidecar"
"""Users that exist in these namespaces only; as the page calls them."""

CONTAINER = "sidecar"
"""The user of the image; as the Dockerfile and docs/deploy/pod.nft have it."""
USERS = {"root": 0, APP: 64001, SIDECAR: 64002, CONTAINER: 10001}

_PASSWD = "".join(f"{name}:x:{number}:{number}::/:/bin/sh\n" for name, number in USERS.items())
_GROUP = "".join(f"{name}:x:{number}:\n" for name, number in USERS.items())
_HOSTS = {NAME: SERVER, NAME6: SERVER6}
_READ_ONLY = "+dac_read_search"  # a checkout may lie where other users may not look; grants reading and nothing else


def _run(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, f"{shlex.join(command)}\n{answer.stdout}{answer.stderr}"
    return answer.stdout


def within(name: str, *command: str, user: str = "") -> tuple[str, ...]:
    """A command line that runs in a namespace; as one of the users there, without any right but to read."""
    inside = ("ip", "netns", "exec", name)
    if not user:
        return (*inside, *command)
    rights = ("--inh-caps", f"-all,{_READ_ONLY}", "--ambient-caps", f"-all,{_READ_ONLY}", "--no-new-privs")
    return (*inside, "setpriv", "--reuid", user, "--regid", user, "--clear-groups", *rights, *command)


def run(name: str, *command: str, user: str = "") -> str:
    """Run it to its end; what it printed. What fails is an AssertionError with its words."""
    return _run(*within(name, *command, user=user))


@dataclass(frozen=True)
class Network:
    """Names of the three namespaces."""

    client: str
    router: str
    server: str


def require_root() -> None:
    """Namespaces are for root: on a laptop a skip, in CI a failure."""
    if os.geteuid() == 0:
        return
    if os.environ.get("CI"):
        pytest.fail("transparent mode is tested as root, for it needs network namespaces")
    pytest.skip("network namespaces need root: sudo .venv/bin/python -m pytest tests/live/test_transparent.py")


@contextlib.contextmanager
def network(hosts: Mapping[str, str] = _HOSTS) -> Iterator[Network]:
    """client 10.77.1.2 ── 10.77.1.1 router 10.77.2.1 ── 10.77.2.2 server, the same as fd77:…; gone at the end."""
    with namespace("cli", hosts) as client, namespace("rtr", hosts) as router, namespace("srv", hosts) as server:
        _join(router, CLIENT_SIDE, "1", client, "vc1")
        _join(router, "vs0", "2", server, "vs1")
        yield Network(client, router, server)


@contextlib.contextmanager
def namespace(kind: str, hosts: Mapping[str, str]) -> Iterator[str]:
    """One namespace with a loopback, in which these hosts have these addresses; its name."""
    require_root()
    require_program("ip", "apt-get install iproute2")
    require_program("setpriv", "apt-get install util-linux")
    name = f"{kind}-{secrets.token_hex(3)}"
    files = files_of(name)
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "set", "lo", "up")
        files.mkdir(parents=True)
        known = {"localhost": "127.0.0.1"} | dict(hosts)
        (files / "hosts").write_text("".join(f"{address} {host}\n" for host, address in known.items()))
        (files / "passwd").write_text(_PASSWD)
        (files / "group").write_text(_GROUP)
        yield name
    finally:
        subprocess.run(("ip", "netns", "del", name), capture_output=True)
        shutil.rmtree(files, ignore_errors=True)


def files_of(name: str) -> Path:
    """A folder whose entries `ip netns exec` lays over those of /etc, where there are such."""
    return Path("/etc/netns", name)


def _join(router: str, here: str, subnet: str, other: str, there: str) -> None:
    _run("ip", "-n", router, "link", "add", here, "type", "veth", "peer", "name", there, "netns", other)
    for name, link, number in ((router, here, "1"), (other, there, "2")):
        _run("ip", "-n", name, "addr", "add", f"10.77.{subnet}.{number}/24", "dev", link)
        _run("ip", "-n", name, "addr", "add", f"fd77:{subnet}::{number}/64", "dev", link, "nodad")
        _run("ip", "-n", name, "link", "set", link, "up")
    _run("ip", "-n", other, "route", "add", "default", "via", f"10.77.{subnet}.1")
    _run("ip", "-n", other, "-6", "route", "add", "default", "via", f"fd77:{subnet}::1")
