"""Which names logged in from which addresses before, and with which devices; remembered over a restart.

It lets no client in. It says which failures a client waits for: a device that logged in before, by its client id, waits
for its own failures alone, however many others fail under its name from its address. A guesser gets that share only by
all three: the address, the name and the client id. Knowledge that is lost costs nothing but this share, so the file is
neither synced nor complete.
"""

import hashlib
import logging
import os
import secrets
from collections import OrderedDict
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

FILE: Final = "known_logins"
DEVICES_MAX: Final = 100_000
DEVICES_OF_NAME_MAX: Final = (
    256  # one user whose clients have another id each time pushes out its own devices, not others
)
_HASH_BYTES: Final = 8
_RECORD_BYTES: Final = 2 * _HASH_BYTES  # a name at an address, and a device
_SALT_BYTES: Final = 16
_RECORDS_MAX: Final = 2 * DEVICES_MAX  # of the file, before those that are forgotten are taken out
_NO_DEVICE: Final = bytes(_HASH_BYTES)


class KnownLogins:
    """Names and devices that logged in, by salted hashes; owned by `FailedLogins`.

    Of more than `DEVICES_MAX` devices the names of the longest ago are forgotten.

    Args:
        file: Where they are kept; None for nowhere.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._salt = secrets.token_bytes(_SALT_BYTES)
        self._names: OrderedDict[bytes, bytes] = OrderedDict()  # and their devices, one hash after the other
        self._devices_count = 0
        self._new: list[bytes] = []  # records that the file does not have
        self._records_count = 0  # of the file
        self._has_failed = False
        if file is not None:
            self._load(file)

    def __len__(self) -> int:
        return len(self._names)

    def knows(self, place: int, name: str) -> bool:
        return bool(self._names) and self._name_hash(place, name) in self._names

    def device_of(self, place: int, name: str, clientid: str) -> bytes:
        """What a known device is counted by; empty for one that did not log in before under this name from there."""
        devices = self._names.get(self._name_hash(place, name), b"")
        if not devices or not clientid:
            return b""
        device = self._device_hash(place, name, clientid)
        return device if _index(devices, device) >= 0 else b""

    def add(self, place: int, name: str, clientid: str = "") -> None:
        """A login succeeded; without a client id the name alone is remembered."""
        device = self._device_hash(place, name, clientid) if clientid else _NO_DEVICE
        self._add(self._name_hash(place, name), device)

    def save(self) -> None:
        """Add to the file what it does not have; called now and then, and at the end."""
        if self._file is None or not self._new:
            return
        records, self._new = self._new, []
        self._records_count += len(records)
        try:
            if self._has_failed or self._records_count > _RECORDS_MAX or not self._file.exists():
                self._rewrite(self._file)
            else:
                with self._file.open("ab") as file:
                    file.write(b"".join(records))
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                _log.warning("%s is not written, who logged in is forgotten with this process: %s", self._file, error)
            self._has_failed = True

    def _load(self, file: Path) -> None:
        try:
            data = file.read_bytes()
            if len(data) >= _SALT_BYTES:
                self._salt = data[:_SALT_BYTES]
            for at in range(_SALT_BYTES, len(data) - _RECORD_BYTES + 1, _RECORD_BYTES):
                record = data[at : at + _RECORD_BYTES]
                self._add(record[:_HASH_BYTES], record[_HASH_BYTES:])
            self._new = []
            self._rewrite(file)  # a record that was cut off would move all after it
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("%s cannot be used, it is not known who logged in before: %s", file, error)

    def _rewrite(self, file: Path) -> None:
        records = [self._salt]
        for name, devices in self._names.items():
            if len(devices) == _HASH_BYTES:  # nearly all: the event loop waits for this
                records.append(name + devices)
            else:
                records += [name + devices[at : at + _HASH_BYTES] for at in range(0, len(devices), _HASH_BYTES)]
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_bytes(b"".join(records))
        os.replace(fresh, file)
        self._records_count = len(records) - 1

    def _add(self, name: bytes, device: bytes) -> None:
        devices = before = self._names.pop(name, b"")
        index = _index(devices, device)
        if index >= 0:
            devices = devices[:index] + devices[index + _HASH_BYTES :]
        elif self._file is not None:
            self._new.append(name + device)
        devices = (devices + device)[-DEVICES_OF_NAME_MAX * _HASH_BYTES :]  # the newest last
        self._names[name] = devices
        self._devices_count += (len(devices) - len(before)) // _HASH_BYTES
        while self._devices_count > DEVICES_MAX:
            _, forgotten = self._names.popitem(last=False)
            self._devices_count -= len(forgotten) // _HASH_BYTES

    def _name_hash(self, place: int, name: str) -> bytes:
        return self._hash(f"{place} {name}")

    def _device_hash(self, place: int, name: str, clientid: str) -> bytes:
        return self._hash(f"{place} {name}\0{clientid}")

    def _hash(self, text: str) -> bytes:
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=_HASH_BYTES, key=self._salt).digest()

    def __repr__(self) -> str:
        return f"KnownLogins({len(self._names)} names, {self._devices_count} devices)"


def _index(devices: bytes, device: bytes) -> int:
    """Where a device stands among others; -1 if it does not."""
    index = devices.find(device)
    while index % _HASH_BYTES and index >= 0:  # the end of one and the beginning of the next
        index = devices.find(device, index + 1)
    return index
