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


def write(directory: Path, runbooks_url: str | None = None) -> list[Path]:
    """Write everything below a directory, which is made; the files, sorted. Others that are there stay.

    `runbooks_url`: where your runbooks are, for the `runbook_url` of alerts. Raises NothingToWrite and OSError.
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
            if runbooks_url is not None and file.suffix == ".yml" and name == "alerts":
                _link(target, runbooks_url.rstrip("/"))
    return sorted(written)


def _link(file: Path, url: str) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(_RUNBOOK.sub(rf"\g<1>{url}/\g<2>.md", text), encoding="utf-8")
