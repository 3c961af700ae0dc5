"""docs/deploy/envoy/: what Envoy Gateway and Istio are given is what the tested configuration has, and Kubernetes takes it."""

from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from sidecar.cli import cli
from tests.compose import PROJECT
from tests.parts import require_module

FOLDER = PROJECT / "docs" / "deploy" / "envoy"
(PLAIN,) = yaml.safe_load_all((FOLDER / "envoy.yaml").read_text())
(GATEWAY,) = yaml.safe_load_all((FOLDER / "envoy-gateway.yaml").read_text())
(ISTIO,) = yaml.safe_load_all((FOLDER / "istio.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
MANAGER = PLAIN["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
ADDRESS = {"address": "llm-sidecar.llm-sidecar.svc.cluster.local", "port_value": 50051}


def gateway_parts() -> list[Any]:
    return [patch["operation"]["value"] for patch in GATEWAY["spec"]["jsonPatches"]]


def istio_parts() -> list[Any]:
    found, merged, cluster = (patch["patch"]["value"] for patch in ISTIO["spec"]["configPatches"])
    (log,) = merged["typed_config"]["access_log"]
    return [found, log, cluster]


@pytest.mark.parametrize("parts", [gateway_parts(), istio_parts()], ids=["envoy gateway", "istio"])
def test_same_as_the_tested_configuration(parts: list[Any]) -> None:
    filter_, log, cluster = parts
    expected = dict(MANAGER["http_filters"][0])
    del expected["disabled"]
    assert filter_ == expected
    assert [log] == MANAGER["access_log"]
    tested = yaml.safe_load(yaml.safe_dump(PLAIN["static_resources"]["clusters"][1]))
    endpoint = tested["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    endpoint["address"]["socket_address"] = ADDRESS
    assert cluster == tested


@pytest.mark.parametrize("parts", [gateway_parts(), istio_parts()], ids=["envoy gateway", "istio"])
def test_envoys_own_messages_take_it(parts: list[Any]) -> None:
    require_module("envoy.config.cluster.v3.cluster_pb2", "pip install xds-protos")
    from envoy.config.accesslog.v3 import accesslog_pb2
    from envoy.config.cluster.v3 import cluster_pb2
    from envoy.extensions.access_loggers.grpc.v3 import als_pb2  # noqa: F401  # registers what Any holds
    from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2  # noqa: F401
    from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
    from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
    from google.protobuf.json_format import ParseDict

    messages = (http_connection_manager_pb2.HttpFilter(), accesslog_pb2.AccessLog(), cluster_pb2.Cluster())
    for value, message in zip(parts, messages, strict=True):
        ParseDict(value, message)
        assert message.name == "llm-sidecar"


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("found", [pytest.param(each, id=each["kind"]) for each in KUBERNETES])
def test_kubernetes_takes_it(found: dict[str, Any], version: str) -> None:
    if found["kind"] == "ServiceMonitor":  # the operator's: no schema of Kubernetes' own
        assert found["spec"]["endpoints"][0]["port"] == "llm-metrics"
        return
    kubernetes_validate.validate(found, version, strict=True)


def test_container_is_started_with_what_the_program_takes() -> None:
    (container,) = KUBERNETES[0]["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    run = cli.get_command(click.Context(cli), command)
    assert run is not None
    flags = run.make_context(command, arguments).params
    assert flags["envoy_listen"].endswith(f":{ADDRESS['port_value']}")
    assert [port["containerPort"] for port in container["ports"]] == [50051, 9464]
