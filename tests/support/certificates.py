"""A certificate authority for tests: server and client certificates, revocation lists, and contexts for clients."""

import datetime
import ssl
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


class Authority:
    """An authority of its own, with files in a directory.

    Args:
        directory: Where the files go.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.cafile = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.cafile))

    def server(self, *names: str, file: str = "server.pem") -> Path:
        """A file with a server's key and certificate."""
        path = self._directory / file
        leaf = self._ca.issue_cert(*(names or ("localhost", "127.0.0.1")), key_type=trustme.KeyType.ECDSA)
        leaf.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def locked_server(self, password: str) -> tuple[Path, Path]:
        """Certificate and key of a server, the key behind a password."""
        pem = self.server(file="locked.pem").read_bytes()
        key = serialization.load_pem_private_key(pem, None)
        keyfile = self._directory / "locked.key"
        keyfile.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode()),
            )
        )
        certfile = self._directory / "locked.crt"
        certfile.write_bytes(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
        return certfile, keyfile

    def client(self, name: str, organization: str | None = None) -> Path:
        """A file with a client's key and certificate."""
        path = self._directory / f"{name}.pem"
        leaf = self._ca.issue_cert(
            f"{name}@example.org", common_name=name, organization_name=organization, key_type=trustme.KeyType.ECDSA
        )
        leaf.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def revoke(self, *certificates: Path) -> Path:
        """A file with the list of revoked certificates."""
        issuer = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        key = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0)
        builder = x509.CertificateRevocationListBuilder(issuer.subject, now - datetime.timedelta(hours=1))
        builder = builder.next_update(now + datetime.timedelta(days=1))
        for file in certificates:
            pem = file.read_bytes()
            serial = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :]).serial_number
            revoked = x509.RevokedCertificateBuilder(serial, now - datetime.timedelta(hours=1)).build()
            builder = builder.add_revoked_certificate(revoked)
        path = self._directory / "revoked.pem"
        path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def context(self, certificate: Path | None = None, *, highest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """A client's context that trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.cafile))
        if highest is not None:
            context.maximum_version = highest
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
