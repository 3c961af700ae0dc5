"""`sidecar demo` as a stranger runs it: every kind of stream gets its row, and nothing is said that nobody asked for."""

from sidecar.demo.realtime import MODELS
from sidecar.demo.upstream import PLAYS
from tests.live.processes import BIN, program


async def test_it_shows_every_kind_of_stream_and_ends_by_itself() -> None:
    command = (str(BIN / "sidecar"), "demo", "--seconds", "12", "--metrics-listen", "127.0.0.1:0")
    async with program("demo", *command) as demo:
        assert await demo.finish(90) == 0, demo.stderr
        rows = {cells[1].strip(): cells for line in demo.stdout.splitlines() if len(cells := line.split("│")) > 7}
        assert {*PLAYS, *MODELS} <= rows.keys()
        assert all(cells[2].strip() or cells[3].strip() for model, cells in rows.items() if model)
        assert "exchanges recorded" in demo.stdout
        assert " 0 exchanges recorded" not in f" {demo.stdout}"
        assert demo.stderr == ""
