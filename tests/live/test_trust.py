"""The table of runtimes in docs/deploy/transparent.md: each trusts the sidecar's authority once told of it as the page says,
and not before."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.live.deploy_page import block, redirect
from tests.live.namespaces import APP, NAME, within
from tests.live.nodejs import node
from tests.live.processes import program
from tests.live.redirected import application, place
from tests.parts import require_program

_URL = f"https://{NAME}/v1/models"
_BOTO = f"""
import boto3
keys = {{"aws_access_key_id": "a", "aws_secret_access_key": "b"}}
client = boto3.client("bedrock-runtime", region_name="eu-1", endpoint_url="https://{NAME}", **keys)
try:
    client.invoke_model(modelId="m", body=b"{{}}")
except client.exceptions.ClientError as error:
    print(error.response["ResponseMetadata"]["HTTPStatusCode"])
"""


def runtimes() -> dict[str, tuple[str, ...]]:
    """Programs that ask the upstream for what it does not have, and print the 404 that they get."""
    curl = require_program("curl", "apt-get install curl")
    promtool = require_program("promtool", "apt-get install prometheus")
    return {
        "httpx": (sys.executable, "-c", f"import httpx; print(httpx.get('{_URL}').status_code)"),
        "requests": (sys.executable, "-c", f"import requests; print(requests.get('{_URL}').status_code)"),
        "boto3": (sys.executable, "-c", _BOTO),
        "node": (node(), "-e", f"fetch('{_URL}').then((answer) => console.log(answer.status))"),
        "curl": (curl, "--silent", "--write-out", "%{http_code}", _URL),
        "go": (promtool, "query", "instant", f"https://{NAME}", "up"),  # a program in Go that is here anyway
    }


async def test_every_runtime_trusts_the_authority_once_told_of_it(tmp_path: Path) -> None:
    require_program("update-ca-certificates", "apt-get install ca-certificates")
    async with place(tmp_path) as here, here.sidecar(*here.start_line("output")) as (_, authority):
        redirect(here.net, "nft", "output", tmp_path)
        environment = told_by_the_page(tmp_path, authority)
        for name, command in runtimes().items():
            for told in ({}, environment):
                inside = within(here.net.router, *application(*command, **told), user=APP)
                async with program(name, *inside) as running:
                    await running.finish(60)
                    said = running.stdout + running.stderr
                assert ("404" in said) is bool(told), f"{name}, told {told}: {said}"


def told_by_the_page(folder: Path, authority: Path) -> dict[str, str]:
    """The variables that the page sets, with a bundle made as the page says but in a folder of the test."""
    local, etc = folder / "local", folder / "etc"
    local.mkdir()
    etc.mkdir()
    shutil.copy(authority, local / "llm-sidecar.crt")
    folders = ("--localcertsdir", str(local), "--etccertsdir", str(etc), "--hooksdir", "/nonexistent")
    subprocess.run(("update-ca-certificates", *folders), check=True, capture_output=True)
    ours = {"/etc/ssl/certs": etc, "/usr/local/share/ca-certificates": local}
    found = {}
    for line in block("sh trust").splitlines():
        name, _, file = line.removeprefix("export ").partition("=")
        found[name] = str(ours[str(Path(file).parent)] / Path(file).name)
        assert Path(found[name]).exists()
    return found
