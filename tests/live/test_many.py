"""docs/deploy/many.md: several proxies behind a balancer feed one analyzer, and the kernel spreads connections over proxies."""

import shlex
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from tests.documents import blocks
from tests.live.deploy_page import DEPLOY, load
from tests.live.namespaces import APP, namespace, network, run, within
from tests.live.processes import BIN, program
from tests.live.redirected import application
from tests.live.scrape import wait_until
from tests.parts import require_program

PAGE = list(blocks(DEPLOY / "many.md"))
_ASK = Path(__file__).with_name("ask_openai.py")
_SPREAD = """
import selectors, socket
chosen = selectors.DefaultSelector()
for port in (8888, 8889):
    listening = socket.create_server(("127.0.0.1", port))
    chosen.register(listening, selectors.EVENT_READ, port)
print("listening", flush=True)
while True:
    for key, _ in chosen.select():
        key.fileobj.accept()[0].close()
        print("accepted", key.data, flush=True)
"""
_CONNECT = """
import socket
for _ in range(6):
    socket.create_connection(("10.77.2.2", 8000), 10).close()
"""


async def test_several_proxies_behind_a_balancer_feed_one_analyzer(tmp_path: Path, short_path: Path) -> None:
    (lines,) = [block.text for block in PAGE if "sidecar analyzer" in block.text]
    (balancer,) = [block.text for block in PAGE if block.language == "haproxy"]
    file = tmp_path / "haproxy.cfg"
    file.write_text(balancer)
    haproxy = (require_program("haproxy", "apt-get install haproxy"), "-db", "-f", str(file))
    scene = (sys.executable, "-m", "sidecar.demo.scene", "upstream", "127.0.0.1:8000")
    analyzer, *proxies = [shlex.split(line.replace("/run/llm-sidecar", str(short_path))) for line in lines.splitlines()]
    assert len(proxies) == 2
    with namespace("box", {}) as box:
        async with AsyncExitStack() as stack:
            for says, command in (
                ("upstream", scene),
                ("metrics", (str(BIN / analyzer[0]), *analyzer[1:])),
                *(("proxy", (str(BIN / proxy[0]), *proxy[1:], "--set", f"confdir={tmp_path}")) for proxy in proxies),
            ):
                running = await stack.enter_async_context(program(says, *within(box, *command)))
                await running.says(f"({says})")
            await stack.enter_async_context(program("haproxy", *within(box, *haproxy)))

            async def page() -> str:
                get = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
                return run(box, *application(sys.executable, "-c", get))

            async def both() -> bool:
                return "llm_sidecar_proxies_connected 2.0" in await page()

            await wait_until(both, 20, "both proxies are connected to the analyzer")

            async def asked() -> bool:
                asks = application(sys.executable, str(_ASK), *["http://127.0.0.1:8080"] * 4)
                async with program("client", *within(box, *asks)) as client:
                    return await client.finish(60) == 0

            await wait_until(asked, 60, "the balancer is up and passes requests on")

            async def counted() -> bool:
                lines = (await page()).splitlines()
                workers = [line for line in lines if line.startswith("llm_sidecar_loop_lag_seconds{")]
                complete = [line for line in lines if line.startswith("llm_streams_total{") and '"complete"' in line]
                return len(workers) == 2 and sum(float(line.rpartition(" ")[2]) for line in complete) >= 4

            await wait_until(counted, 20, "four streams, and two proxies that say how they are")


async def test_the_kernel_spreads_connections_over_proxies(tmp_path: Path) -> None:
    (redirect,) = [block.text for block in PAGE if block.language == "nft"]
    file = tmp_path / "spread.nft"
    file.write_text(redirect)
    with network() as net:
        load(net, file)
        async with program("listeners", *within(net.router, sys.executable, "-c", _SPREAD)) as listeners:
            await listeners.says("(listening)")
            run(net.router, *application(sys.executable, "-c", _CONNECT), user=APP)

            async def accepted() -> Counter[str] | None:
                found = Counter(
                    line.split()[1] for line in listeners.stdout.splitlines() if line.startswith("accepted")
                )
                return found if found.total() == 6 else None

            assert await wait_until(accepted, 10, "six connections") == {"8888": 3, "8889": 3}
