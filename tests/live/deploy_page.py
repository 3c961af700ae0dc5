"""The marked blocks of docs/deploy/transparent.md: what a test runs is what the page says."""

import re
import shlex
from pathlib import Path

from tests.live.namespaces import Network, run
from tests.live.processes import BIN, PROJECT
from tests.parts import require_program

DEPLOY = PROJECT / "docs" / "deploy"
PAGE = DEPLOY / "transparent.md"
_STATE = "/var/lib/llm-sidecar"
"""The one path of the page that is another one in a test."""


def block(mark: str) -> str:
    """The one block of the page that is marked so."""
    text = PAGE.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{re.escape(mark)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def redirect(net: Network, tool: str, hook: str, folder: Path) -> None:
    """Load the redirect of this hook with nft or iptables, in the router."""
    if tool == "iptables":
        require_program("iptables", "apt-get install iptables")
        run_lines(net, block(f"iptables {hook}"))
        return
    file = folder / f"{hook}.nft"
    file.write_text(block(f"nft {hook}"))
    load(net, file)


def load(net: Network, file: Path) -> None:
    """Load a file of nftables in the router."""
    require_program("nft", "apt-get install nftables")
    run(net.router, "nft", "-f", str(file))


def undo(net: Network, tool: str, hook: str) -> None:
    """Take the redirect away again."""
    run_lines(net, block("sh undo-nft" if tool == "nft" else f"iptables undo-{hook}"))


def run_lines(net: Network, lines: str) -> None:
    """Run command lines in the router, as root."""
    for line in lines.splitlines():
        run(net.router, *shlex.split(line))


def start_line(hook: str, state: Path) -> tuple[str, ...]:
    """How the page starts the sidecar for this hook, with its state in a folder of the test."""
    command = shlex.split(block(f"sh start-{hook}").replace(_STATE, str(state)))
    assert command[0] == "sidecar"
    return (str(BIN / "sidecar"), *command[1:])
