"""The real Prometheus and the real Alertmanager, on ports of their own choosing, and what they say."""

import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.live.processes import Program, program
from tests.parts import require_program

_HOW = "apt-get install prometheus prometheus-alertmanager"
JOB = "llm-sidecar"


@dataclass
class Prometheus:
    """A running Prometheus."""

    program: Program
    url: str
    client: httpx.AsyncClient
    """One for all queries: to make one takes longer than most queries."""

    async def get(self, path: str, **params: str) -> Any:
        """An answer's `data`; what Prometheus refuses is an AssertionError with its words."""
        answer = (await self.client.get(f"{self.url}/api/v1/{path}", params=params)).json()
        assert answer["status"] == "success", answer.get("error")
        return answer["data"]

    async def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of an instant query."""
        found = await self.get("query", query=expression)
        return [(row["metric"], float(row["value"][1])) for row in found["result"]]

    async def firing(self) -> list[dict[str, str]]:
        """Labels of the alerts that fire."""
        found = await self.get("alerts")
        return [alert["labels"] for alert in found["alerts"] if alert["state"] == "firing"]


@dataclass
class Alertmanager:
    """A running Alertmanager, and the notifications it sent: status and labels, in order."""

    url: str
    notified: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def told(self, status: str) -> list[dict[str, str]]:
        """Labels of the alerts that it notified of with this status: firing or resolved."""
        return [labels for each, labels in self.notified if each == status]

    async def active(self) -> list[dict[str, str]]:
        """Labels of the alerts that it holds as not resolved."""
        async with httpx.AsyncClient(trust_env=False) as client:
            found = (await client.get(f"{self.url}/api/v2/alerts", timeout=10)).json()
        return [alert["labels"] for alert in found]


class _Webhook(RequestHandler):
    def initialize(self, notified: list[tuple[str, dict[str, str]]]) -> None:
        self.notified = notified

    def post(self) -> None:
        for alert in json.loads(self.request.body)["alerts"]:
            self.notified.append((alert["status"], alert["labels"]))


@contextlib.asynccontextmanager
async def alertmanager(folder: Path) -> AsyncIterator[Alertmanager]:
    """An Alertmanager that notifies a webhook of ours without delay."""
    found = shutil.which("alertmanager") or require_program("prometheus-alertmanager", _HOW)
    running = Alertmanager("")
    server = HTTPServer(Application([("/", _Webhook, {"notified": running.notified})], log_function=lambda _: None))
    sockets = bind_sockets(0, address="127.0.0.1")
    server.add_sockets(sockets)
    hook = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/"
    config = {
        "route": {"receiver": "test", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
        "receivers": [{"name": "test", "webhook_configs": [{"url": hook, "send_resolved": True}]}],
    }
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    command = (
        found,
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager'}",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    )
    try:
        async with program("alertmanager", *command) as process:
            running.url = "http://" + await process.says(r'msg="Listening on".*address=(127\.0\.0\.1:\d+)')
            yield running
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def prometheus(
    folder: Path,
    targets: Mapping[str, str],
    rules: Mapping[str, str],
    *,
    every: str = "1s",
    notify: Alertmanager | None = None,
) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes these URLs (job to URL of its metrics) and evaluates these rule files."""
    found = require_program("prometheus", _HOW)
    for name, text in rules.items():
        (folder / name).write_text(text)
    config: dict[str, Any] = {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": [str(folder / name) for name in rules],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [urlsplit(url).netloc]}]} for job, url in targets.items()
        ],
    }
    if notify is not None:
        config["alerting"] = {
            "alertmanagers": [{"static_configs": [{"targets": [urlsplit(notify.url).netloc]}]}],
        }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    command = (
        found,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        "--enable-feature=exemplar-storage",
    )
    async with program("prometheus", *command) as process:
        address = await process.says(r'msg="Listening on".*address=(127\.0\.0\.1:\d+)')
        await process.says(r"(Server is ready to receive web requests)")
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            yield Prometheus(process, f"http://{address}", client)
