"""Certificates for tests: one self-signed certificate for localhost, and contexts that use or trust one."""

import ssl
from pathlib import Path

from sidecar.demo.certificate import self_signed


class Certificate:
    """A self-signed certificate with its key in one PEM file, for these hosts and addresses."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.path = folder / "localhost.pem"
        self_signed(self.path, names or ("localhost", "127.0.0.1"))

    def server(self) -> ssl.SSLContext:
        """For a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path)
        return context


def trusting(ca: Path) -> ssl.SSLContext:
    """For a client that trusts this authority and no other."""
    return ssl.create_default_context(cafile=ca)
