"""Dashboards, rules, provisioning and runbooks out of the installed package, or out of the checkout it runs from."""

import re
import shutil
from pathlib import Path

_PACKAGE = Path(__file__).parent
_PACKAGED = _PACKAGE / "dashboards_data"
_CHECKOUT = _PACKAGE.parent

PARTS = {
    "grafana": _CHECKOUT / "dashboards" / "grafana",
    "alerts": _CHECKOUT / "dashboards" / "alerts",
    "provisioning": _CHECKOUT / "dashboards" / "provisioning",
    "runbooks": _CHECKOUT / "docs" / "runbooks",
}
"""Folders that are written, and where they stand in a checkout. A wheel carries them as `sidecar/dashboards_data/`."""

_RUNBOOK = re.compile(r"(runbook_url: )\S*?(\w+)\.md$", re.MULTILINE)


class NothingToWrite(RuntimeError):
    """The package was installed without its data; the text says what to do."""


def runbooks_in(directory: Path) -> str:
    """Where alerts link to unless told otherwise: a file URL of what is written, which opens on this machine."""
    return (directory.absolute() / "runbooks").as_uri()


def write(directory: Path, runbook_base: str) -> list[Path]:
    """Write everything below a directory, which is made; the files, sorted. Others that are there stay.

    `runbook_base`: URL of the folder of runbooks, for the `runbook_url` of alerts. Raises NothingToWrite and OSError.
    """
    written: list[Path] = []
    for name, in_checkout in PARTS.items():
        source = _PACKAGED / name if _PACKAGED.is_dir() else in_checkout
        if not source.is_dir():
            raise NothingToWrite("this installation has no dashboards with it: install llm-sidecar from a wheel")
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            target = directory / name / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            written.append(target)
            if file.suffix == ".yml" and name == "alerts":
                _link(target, runbook_base.rstrip("/"))
    return sorted(written)


def _link(file: Path, url: str) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(_RUNBOOK.sub(lambda found: f"{found[1]}{url}/{found[2]}.md", text), encoding="utf-8")
