"""Certificates for tests: one self-signed certificate for localhost, and contexts that use or trust one."""

import datetime
import ssl
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificate:
    """A self-signed certificate with its key in one PEM file, for this address and these hosts (localhost)."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", *hosts: str) -> None:
        self.path = folder / "localhost.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.UTC)
        names = x509.SubjectAlternativeName(
            [*(x509.DNSName(host) for host in hosts or ("localhost",)), x509.IPAddress(ip_address(address))]
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )

    def server(self) -> ssl.SSLContext:
        """For a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path)
        return context


def trusting(ca: Path) -> ssl.SSLContext:
    """For a client that trusts this authority and no other."""
    return ssl.create_default_context(cafile=ca)
