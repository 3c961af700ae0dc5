"""Who may read the analyzer's endpoints: by default whoever reaches them, which is nobody but this host."""

import hmac
import ssl
from base64 import b64decode
from ipaddress import ip_address
from pathlib import Path

import msgspec

OPEN_PATHS = ("/healthz", "/readyz")
"""What a supervisor asks without a token; they say nothing of the traffic."""

_SHORTEST = 16


class AccessError(ValueError):
    """A token or a certificate cannot be used; the text is one line that says why and what to do."""


class Access(msgspec.Struct, frozen=True):
    """`token`: what a reader has to show, as `Authorization: Bearer TOKEN` or as the password of basic auth, which
    browsers ask for. `loopback`: the address can be reached from this host only, so that a request for any other name
    comes from a page that a browser was lured to (DNS rebinding)."""

    token: bytes | None = None
    loopback: bool = True

    def refusal(self, path: str, authorization: str, host: str) -> tuple[int, str] | None:
        """Status and reason where a request is not answered, else None."""
        if self.loopback and host and not is_loopback(_name(host)):  # HTTP/1.0, which no browser speaks, has none
            return 403, "this address answers to localhost and 127.0.0.1 only: give another one to --metrics-listen"
        if self.token is None or path in OPEN_PATHS or hmac.compare_digest(_shown(authorization), self.token):
            return None
        return 401, "a token is asked for: Authorization: Bearer …, or basic auth with the token as password"


def is_loopback(host: str) -> bool:
    """Whether a name or an address stands for this host only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    return host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0].lower()


def _shown(authorization: str) -> bytes:
    """The token in an Authorization header; empty where there is none."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1", "replace")
    if scheme.lower() == "basic":
        try:
            return b64decode(value, validate=True).partition(b":")[2]
        except ValueError:
            pass
    return b""


def read_token(path: str | None) -> bytes | None:
    """The token in a file, white space around it cut off. Raises AccessError."""
    if path is None:
        return None
    try:
        token = Path(path).read_bytes().strip()
    except OSError as error:
        raise AccessError(f"cannot read metrics_token_file {path}: {error.strerror or error}") from error
    if len(token) < _SHORTEST or not token.isascii() or b" " in token:
        raise AccessError(
            f"metrics_token_file {path} needs a token of {_SHORTEST} or more ASCII characters without spaces, "
            "such as `openssl rand -hex 32` prints"
        )
    return token


def read_certificate(path: str | None) -> ssl.SSLContext | None:
    """TLS with the certificate chain and the key of a PEM file. Raises AccessError."""
    if path is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(path)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or error
        raise AccessError(
            f"cannot use metrics_certificate {path}: {said}; one PEM file with certificate and key is needed"
        ) from error
    return context
