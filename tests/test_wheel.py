"""`sidecar dashboards` as somebody has it who installed a wheel: no checkout near, everything out of the package."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.parts import require_module, require_program

PROJECT = Path(__file__).parents[1]
PARTS = ("dashboards/grafana", "dashboards/alerts", "dashboards/provisioning", "docs/runbooks")


@dataclass
class Installed:
    """A fresh environment with the wheel in it, and nothing of the checkout."""

    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        # What the wheel depends on comes from the environment of the tests; the sidecar itself is not in that folder.
        env = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
        program, *arguments = command
        found = self.folder / "env" / "bin" / program
        return subprocess.run(
            [found, *arguments], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    require_module("hatchling", "pip install hatchling")
    folder = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = (*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(PROJECT))
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", symlinks=True)
    python = str(folder / "env" / "bin" / "python")
    subprocess.run(
        (*pip, "--python", python, "install", "--no-deps", "--no-index", str(wheel)), check=True, capture_output=True
    )
    return Installed(folder)


def _below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_is_the_wheel_that_runs(installed: Installed) -> None:
    answer = installed.run("python", "-c", "import sidecar; print(sidecar.__file__)")
    assert Path(answer.stdout.strip()).is_relative_to(installed.folder), answer.stderr


def test_everything_is_written_and_alerts_link_to_it(installed: Installed) -> None:
    answer = installed.run("sidecar", "dashboards", "out")
    assert answer.returncode == 0, answer.stderr
    out = installed.folder / "out"
    for part in PARTS:
        written = out / Path(part).name
        assert _below(written) == _below(PROJECT / part)
        for name in _below(written):
            if Path(part).name != "alerts":
                assert (written / name).read_bytes() == (PROJECT / part / name).read_bytes()
    links = re.findall(
        r"runbook_url: file://(\S+)", "".join(path.read_text() for path in (out / "alerts").glob("*.yml"))
    )
    assert len(links) > 20
    assert [link for link in links if not Path(link).is_file()] == []
    assert f"alerts link to {(out / 'runbooks').as_uri()}" in answer.stdout


def test_links_are_those_of_the_runbook_base_and_the_rules_still_pass_their_tests(installed: Installed) -> None:
    base = "https://wiki.example.com/llm/runbooks"
    answer = installed.run("sidecar", "dashboards", "based", "--runbook-base", f"{base}/")
    assert answer.returncode == 0, answer.stderr
    alerts = installed.folder / "based" / "alerts"
    text = "".join(path.read_text() for path in alerts.glob("*.rules.yml"))
    assert text.count("runbook_url: ") == text.count(f"runbook_url: {base}/LLM") == text.count("alert: ")
    promtool = require_program("promtool", "apt-get install prometheus")
    command = (promtool, "test", "rules", "llm-sidecar.test.yml")  # one is enough: tests/dashboards runs all of them
    checked = subprocess.run(command, cwd=alerts / "tests", capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("base", ["runbooks", "docs/runbooks", "https://wiki.example.com/a b", "javascript:alert(1)"])
def test_a_base_that_is_no_url_is_refused(installed: Installed, base: str) -> None:
    answer = installed.run("sidecar", "dashboards", "refused", "--runbook-base", base)
    assert answer.returncode == 2
    assert "is no URL such as https://" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (installed.folder / "refused").exists()


def test_a_folder_that_cannot_be_written_is_one_line(installed: Installed) -> None:
    (installed.folder / "file").write_text("")
    answer = installed.run("sidecar", "dashboards", "file")
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert "cannot write" in answer.stderr
