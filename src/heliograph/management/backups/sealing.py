"""Archives that are encrypted with a passphrase: AES-256-GCM in chunks, with a key that scrypt makes of it."""

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from heliograph.management.backups.errors import BackupError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC: Final = b"HELIOGRAPH-SEALED-1\n"
_SALT: Final = 16
_NONCE: Final = 8
_CHUNK: Final = 1 << 20
_TAG: Final = 16
_COUNTER: Final = struct.Struct(">I")


def is_sealed(file: Path) -> bool:
    """Whether a file is encrypted."""
    with file.open("rb") as source:
        return source.read(len(_MAGIC)) == _MAGIC


def seal(source: Path, target: Path, passphrase: str) -> None:
    """Encrypt a file."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # only sealed archives need it

    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    cipher = AESGCM(_key(passphrase, salt))
    with source.open("rb") as plain, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(_MAGIC + salt + nonce)
        number, chunk = 0, plain.read(_CHUNK)
        while True:
            following = plain.read(_CHUNK)
            # Whether it is the last one is a part of what is authenticated: an archive cannot be cut short.
            out.write(cipher.encrypt(nonce + _COUNTER.pack(number), chunk, b"end" if not following else b"more"))
            if not following:
                return
            number, chunk = number + 1, following


def unseal(source: Path, target: Path, passphrase: str) -> None:
    """Decrypt a file.

    Raises:
        BackupError: The passphrase is another one, or the file was changed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    with source.open("rb") as sealed, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        sealed.read(len(_MAGIC))
        salt, nonce = sealed.read(_SALT), sealed.read(_NONCE)
        cipher = AESGCM(_key(passphrase, salt))
        try:
            _decrypt(sealed, out, cipher, nonce)
        except (InvalidTag, ValueError):
            raise BackupError(
                "the archive cannot be decrypted: the passphrase is another one, or it was changed"
            ) from None


def _decrypt(sealed: BinaryIO, out: BinaryIO, cipher: "AESGCM", nonce: bytes) -> None:
    number, chunk = 0, sealed.read(_CHUNK + _TAG)
    while True:
        following = sealed.read(_CHUNK + _TAG)
        place = nonce + _COUNTER.pack(number)
        out.write(cipher.decrypt(place, chunk, b"end" if not following else b"more"))
        if not following:
            return
        number, chunk = number + 1, following


def _key(passphrase: str, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=1 << 15, r=8, p=1).derive(passphrase.encode())
