"""docs/deploy/envoy/: what Envoy Gateway and Istio are given is what the tested configuration has, and Kubernetes takes it."""

from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from sidecar.cli import cli
from tests.compose import PROJECT

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


def test_replicas_get_the_tested_log_each() -> None:
    (several,) = yaml.safe_load_all((FOLDER / "replicas.yaml").read_text())
    workload = KUBERNETES[0]
    assert (workload["kind"], workload["spec"]["serviceName"]) == ("StatefulSet", "llm-sidecar")
    names = [f"llm-sidecar-{number}" for number in range(workload["spec"]["replicas"])]
    (log,), tested = MANAGER["access_log"], PLAIN["static_resources"]["clusters"][1]
    for name, entry, cluster in zip(names, several["access_log"], several["clusters"], strict=True):
        assert yaml.safe_dump(entry) == yaml.safe_dump(log).replace(": llm-sidecar\n", f": {name}\n")
        place = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
        assert place == {"address": f"{name}.{ADDRESS['address']}", "port_value": 50051}
        assert (cluster["name"], cluster["load_assignment"]["cluster_name"]) == (name, name)
        options = "typed_extension_protocol_options"
        assert cluster[options] == tested[options]
