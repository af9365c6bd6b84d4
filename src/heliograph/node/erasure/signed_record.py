"""The record of an erasure: what was erased and when, signed with a key of the node.

The subject stands in it as a salted hash only, so the record says nothing of a person; with the subject at hand, it can
be shown that the record is about it.
"""

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from heliograph.storage.durable_files import write_durably
from heliograph.storage.erasure.subject import ErasureSubject

FOLDER: Final = "erasures"
_KEY: Final = "key"
_KEY_BYTES: Final = 32
_FORMAT: Final = 1


class InvalidRecordError(ValueError):
    """A record that this node did not sign, or that was changed."""


def write_record(data_dir: Path, subject: ErasureSubject, facts: Mapping[str, object]) -> Path:
    """Sign what was erased and keep it; where it lies."""
    salt = secrets.token_hex(16)
    now = time.gmtime()
    record = {
        "format": _FORMAT,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
        "kind": subject.kind,
        "salt": salt,
        "subject_sha256": _hash_of(salt, subject.text),
        **facts,
    }
    record["signature"] = _signature(_key(data_dir), record)
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', now)}-{salt[:8]}.json"
    file = data_dir / FOLDER / name
    write_durably(file, json.dumps(record, indent=2).encode() + b"\n", 0o600)
    return file


def verified(data_dir: Path, file: Path) -> dict[str, Any]:
    """A record that this node signed, as it was written.

    Raises:
        InvalidRecordError: It is not one.
        OSError: It, or the key, cannot be read.
    """
    try:
        record = json.loads(file.read_bytes())
        signature = record.pop("signature")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InvalidRecordError(f"{file} is no record of an erasure") from error
    key = (data_dir / FOLDER / _KEY).read_bytes()
    if not isinstance(signature, str) or not hmac.compare_digest(signature.encode(), _signature(key, record).encode()):
        raise InvalidRecordError(f"{file} was changed, or another node has signed it")
    assert isinstance(record, dict)
    return record


def is_about(record: Mapping[str, Any], subject: ErasureSubject) -> bool:
    """Whether a verified record is about a subject."""
    about = record["kind"], record["subject_sha256"]
    return bool(about == (subject.kind, _hash_of(record["salt"], subject.text)))


def _hash_of(salt: str, text: str) -> str:
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()


def _signature(key: bytes, record: Mapping[str, object]) -> str:
    content = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _key(data_dir: Path) -> bytes:
    file = data_dir / FOLDER / _KEY
    if not file.exists():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(file, os.urandom(_KEY_BYTES), 0o600)
    return file.read_bytes()
