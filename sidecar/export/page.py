"""The live page: a document, its scripts and its style, as files; no build step, no other host."""

from pathlib import Path

_FOLDER = Path(__file__).with_name("static")
_KINDS = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "rows.js": "text/javascript; charset=utf-8",
    "timeline.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The content security policy: nothing inline, nothing from elsewhere."""


def assets() -> dict[str, tuple[str, bytes]]:
    """Content type and bytes by path."""
    return {
        "/" if name == "page.html" else f"/{name}": (kind, (_FOLDER / name).read_bytes())
        for name, kind in _KINDS.items()
    }
