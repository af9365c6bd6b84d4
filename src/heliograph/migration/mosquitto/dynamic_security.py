"""Users of mosquitto's plugin for dynamic security: the clients of its JSON file, with hashes as in a password file.

Its roles are not read: they decide about messages that a client receives apart from its subscriptions, as no rule does.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heliograph.access.users.files import FileUser
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.migration.errors import ImportRefusedError
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ForeignLine, ImportOutcome


def dynamic_users(file: Path, outcomes: list[ImportOutcome]) -> Iterator[FileUser]:
    """The users of a file; what became of each is added to the outcomes. Raises `ImportRefusedError`."""
    try:
        clients = json.loads(file.read_bytes())["clients"]
        named = [(str(client["username"]), client) for client in clients]
    except OSError as error:
        raise ImportRefusedError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ImportRefusedError(f"{file} is no file of the plugin for dynamic security") from None
    for name, client in named:
        outcome, user = _user(ForeignLine(str(file)), name, client)
        outcomes.append(outcome)
        if user is not None:
            yield user


def _user(place: ForeignLine, name: str, client: dict[str, Any]) -> tuple[ImportOutcome, FileUser | None]:
    setting = f"client {name}"
    if client.get("disabled"):
        return ImportOutcome(place, DROPPED, setting, reason="it is disabled"), None
    if "password" not in client:
        return ImportOutcome(place, DROPPED, setting, reason="it has no password, and cannot log in"), None
    try:
        key = b64decode(client["password"], validate=True)
        salt = b64decode(client["salt"], validate=True)
        iterations = int(client["iterations"])
        algorithm = PasswordHashAlgorithm("pbkdf2", mac_fun="sha512", iterations=iterations, dk_length=len(key))
    except (ValueError, KeyError, TypeError):
        reason = f"its hash is not valid: heliograph ctl users add {name}"
        return ImportOutcome(place, REFUSED, setting, reason=reason, loses_login=True), None
    user = FileUser(name, key.hex().encode(), salt, algorithm=algorithm)
    here = "a user with its PBKDF2 hash"
    if client.get("clientid"):
        reason = f"it may log in with any client id, there with {client['clientid']} alone"
        return ImportOutcome(place, CHANGED, setting, here, reason), user
    return ImportOutcome(place, KEPT, setting, here), user
