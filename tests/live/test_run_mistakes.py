"""A user's mistakes: each is one line on standard error that says what to do, and exit code 2."""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from tests.live.processes import BIN, program

RUN = ("run", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
TAKEN = "TAKEN"
"""Stands for an address that somebody listens on."""


@dataclass(frozen=True)
class Mistake:
    """What is asked for, and what the line must hold. `file` is the text of a configuration file."""

    says: str
    arguments: tuple[str, ...] = RUN
    env: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None


MISTAKES = {
    "no url": Mistake("'api.openai.com', not a URL like https://", ("run", "--upstream", "api.openai.com")),
    "no host": Mistake("bad upstream or mode", ("run", "--upstream", "http://")),
    "no port number": Mistake("bad upstream or mode", ("run", "--upstream", "http://host:x")),
    "nothing to do": Mistake("give --upstream URL or --mode MODE", ("run",)),
    "both": Mistake("--upstream and --mode exclude each other", (*RUN, "--mode", "regular@0")),
    "bad mode": Mistake("bad upstream or mode 'sideways'", ("run", "--mode", "sideways")),
    "bad listen address": Mistake("listen is '8080', not HOST:PORT", (*RUN, "--listen", "8080")),
    "unknown option": Mistake("No such option '--nosuch' (see `sidecar run --help`)", (*RUN, "--nosuch")),
    "unknown command": Mistake("No such command 'walk' (see `sidecar --help`)", ("walk",)),
    "unknown mitmproxy option": Mistake("Unknown option(s): nosuch", (*RUN, "--set", "nosuch=1")),
    "bad mitmproxy option": Mistake("ssl_insecure", (*RUN, "--set", "ssl_insecure=perhaps")),
    "no folder for the authority": Mistake(
        "cannot be used: Not a directory; name another with --set confdir=DIR",
        (*RUN, "--set", "confdir=/dev/null/conf"),
    ),
    "no configuration": Mistake("cannot read the configuration /nonexistent", (*RUN, "--config", "/nonexistent")),
    "configuration is a folder": Mistake("cannot read the configuration /", (*RUN, "--config", "/")),
    "no socket": Mistake("nothing to listen on: give --socket PATH", ("analyzer",)),
    "envoy address": Mistake("neither unix:PATH nor HOST:PORT", ("analyzer", "--envoy-listen", "nowhere")),
    "envoy path": Mistake("'unix:' without a path", ("analyzer", "--envoy-listen", "unix:")),
    "envoy port": Mistake("for Envoy: the address is in use", ("analyzer", "--envoy-listen", "203.0.113.1:50051")),
    "envoy socket": Mistake("exists and is no socket", ("analyzer", "--envoy-listen", f"unix:{__file__}")),
    "socket in no folder": Mistake("cannot listen on the records socket", ("analyzer", "--socket", "/dev/null/s")),
    "no token file": Mistake(
        "cannot read metrics_token_file /nonexistent", (*RUN, "--metrics-token-file", "/nonexistent")
    ),
    "token too short": Mistake("such as `openssl rand -hex 32` prints", (*RUN, "--metrics-token-file", "/dev/null")),
    "no certificate": Mistake("one PEM file with certificate and key", (*RUN, "--metrics-certificate", "/dev/null")),
    "taken proxy port": Mistake("failed to listen on 127.0.0.1:", (*RUN, "--listen", TAKEN)),
    "taken metrics port": Mistake("for metrics: Address already in use", (*RUN, "--metrics-listen", TAKEN)),
    "file: unknown setting": Mistake("no_such", file="no_such = 1"),
    "file: no number": Mistake("max_models", file='max_models = "many"'),
    "file: out of range": Mistake("max_models", file="max_models = 0"),
    "file: unknown threshold": Mistake("never", file="[stalls]\nnever = 1"),
    "file: no toml": Mistake("is no TOML", file="max_models ="),
    "file: no expression": Mistake("include has '(', no regular expression", file='include = ["("]'),
    "file: no log level": Mistake("log_level is 'loud'", file='log_level = "loud"'),
    "env: unknown setting": Mistake("SIDECAR_NO_SUCH", env={"SIDECAR_NO_SUCH": "1"}),
    "env: no number": Mistake("max_models", env={"SIDECAR_MAX_MODELS": "many"}),
    "env: unknown threshold": Mistake("never", env={"SIDECAR_STALLS_NEVER": "1"}),
    "env: no expression": Mistake("exclude has '['", env={"SIDECAR_EXCLUDE": "ok ["}),
    "env: no configuration": Mistake("cannot read the configuration", env={"SIDECAR_CONFIG": "/nonexistent"}),
}


@dataclass(frozen=True)
class Ended:
    """How it ended. `left` are files that it left in its folder for temporary ones."""

    code: int
    stdout: str
    stderr: str
    left: tuple[str, ...]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All mistakes, made two at a time: most of it is the start of the interpreter."""
    room = asyncio.Semaphore(2)
    found: dict[str, Ended] = {}

    async def make(name: str, mistake: Mistake, taken: str) -> None:
        folder, temporary = tmp_path_factory.mktemp("mistake"), tmp_path_factory.mktemp("t")
        arguments = [taken if argument == TAKEN else argument for argument in mistake.arguments]
        if mistake.file is not None:
            Path(folder, "sidecar.toml").write_text(mistake.file)
            arguments += ["--config", str(folder / "sidecar.toml")]
        env = {"TMPDIR": str(temporary), **mistake.env}
        async with room, program("sidecar", str(BIN / "sidecar"), *arguments, env=env) as running:
            code = await running.finish()
            left = tuple(path.name for path in temporary.iterdir())
            found[name] = Ended(code, running.stdout, running.stderr, left)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = f"127.0.0.1:{listening.getsockname()[1]}"
        async with asyncio.TaskGroup() as group:
            for name, mistake in MISTAKES.items():
                group.create_task(make(name, mistake, taken))
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_one_line_and_code_2(ended: dict[str, Ended], name: str) -> None:
    run = ended[name]
    assert run.stderr.startswith("sidecar: ")
    assert run.stderr.count("\n") == 1
    assert MISTAKES[name].says in run.stderr
    assert run.stdout == ""
    assert run.code == 2
    assert run.left == ()


async def test_without_the_envoy_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """gRPC in whichever process imports it is one that is not there."""
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError('No module named grpc', name='grpc')")
    listen = ("--envoy-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
    command = (str(BIN / "sidecar"), "analyzer", *listen)
    async with program("sidecar analyzer", *command, env={"PYTHONPATH": str(tmp_path)}) as running:
        assert await asyncio.wait_for(running.process.wait(), 30) == 2
        (line,) = running.stderr.splitlines()
        assert "needs the envoy extra (grpc is missing): pip install 'llm-sidecar[envoy]'" in line
        assert running.stdout == ""
