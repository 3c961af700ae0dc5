"""The authority that signs what redirected clients see: its certificate, without its key, for those who have to trust it."""

import os
from pathlib import Path

import certifi
from mitmproxy import certs
from mitmproxy.options import CONF_BASENAME, CONF_DIR, KEY_SIZE

CERTIFICATE = "llm-sidecar.crt"
BUNDLE = "bundle.pem"
DEFAULT_CONFDIR = CONF_DIR
"""Where mitmproxy keeps the authority unless told otherwise."""


class NoAuthority(RuntimeError):
    """The authority can be neither read nor made; the text is one line that says why."""


def hand_out(directory: Path, confdir: Path) -> list[Path]:
    """Write into `directory` the authority's certificate, and a bundle of it with the usual public authorities.

    The authority is that of `confdir`, which is also mitmproxy's option of that name; it is made there where there is none.
    Raises NoAuthority, and OSError where it cannot write.
    """
    confdir = confdir.expanduser()
    own = confdir / f"{CONF_BASENAME}-ca-cert.pem"
    try:
        certs.CertStore.from_store(str(confdir), CONF_BASENAME, KEY_SIZE)
        certificate = own.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise NoAuthority(f"the authority in {confdir} cannot be read or made: {error}") from error
    directory.mkdir(parents=True, exist_ok=True)
    written = [directory / CERTIFICATE, directory / BUNDLE]
    _replace(written[0], certificate)
    _replace(written[1], Path(certifi.where()).read_text(encoding="utf-8") + "\n" + certificate)
    return written


def _replace(file: Path, text: str) -> None:
    """At once, for applications may be reading it."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.chmod(0o644)
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise
