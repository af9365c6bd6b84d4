"""What the records of each state database are, for checking them: every kind of key has its reader."""

from collections.abc import Callable, Mapping
from typing import Final

from heliograph.access.bans import stored as stored_bans
from heliograph.access.built_in_rules import record as rules_record
from heliograph.access.people import records as people_records
from heliograph.durable_sessions import record as session_record
from heliograph.node import delayed_record
from heliograph.shared_groups import record as group_record
from heliograph.storage.keyed import records as keyed_records
from heliograph.storage.repair.record_database import Validator

_Reader = Callable[[bytes, bytes], object]


def _value(read: Callable[[bytes], object]) -> _Reader:
    return lambda _, value: read(value)


def _anything(key: bytes, value: bytes) -> None: ...


_SESSIONS: Final[Mapping[bytes, _Reader]] = {
    session_record.SESSION: _value(session_record.decode_session),
    session_record.SUBSCRIPTION: _value(session_record.decode_subscription),
    session_record.TAKEN: _value(session_record.decode_taken),
    session_record.TAKEN_UP_TO: _value(session_record.decode_pair),
    session_record.WILL: _value(session_record.decode_will),
    group_record.BORROWED: group_record.decode_borrowed,
}
_SHARED_GROUPS: Final[Mapping[bytes, _Reader]] = {
    group_record.GROUP: _value(group_record.decode_group),
    group_record.PROGRESS: _value(group_record.decode_progress),
}
# Keys are shown without the byte that all of a state database have; the module has them with it.
_RETAINED: Final[Mapping[bytes, _Reader]] = {
    keyed_records.COUNTS[1:]: _value(keyed_records.unpack_counts),
    keyed_records.message_key(0, b"")[1:2]: lambda key, value: keyed_records.stored_message(b"K" + key, value),
    keyed_records.node_key(0)[1:2]: lambda key, value: keyed_records.read_node(b"K" + key, value),
    keyed_records.stream_key(0)[1:2]: lambda key, value: keyed_records.read_stream(b"K" + key, value),
}
_DELAYED: Final[Mapping[bytes, _Reader]] = {delayed_record.MESSAGE: _value(delayed_record.decode)}
_BANS: Final[Mapping[bytes, _Reader]] = {stored_bans.BAN: stored_bans.decode}
_BUILT_IN_RULES: Final[Mapping[bytes, _Reader]] = dict.fromkeys(rules_record.RECORDS, _value(rules_record.decode))
_PEOPLE: Final[Mapping[bytes, _Reader]] = {
    people_records.USER: _value(lambda value: people_records.decode(people_records.ManagementUser, value)),
    people_records.API_KEY: _value(lambda value: people_records.decode(people_records.StoredApiKey, value)),
    people_records.REVISION: _value(people_records.decode_revision),
}
_READERS: Final = {
    "sessions": _SESSIONS,
    "shared_groups": _SHARED_GROUPS,
    "retained": _RETAINED,
    "delayed": _DELAYED,
    "bans": _BANS,
    "built_in_rules": _BUILT_IN_RULES,
    "people": _PEOPLE,
}


def validator(database: str) -> Validator:
    """Of an unknown database, or kind of record, all can be read."""
    readers = _READERS.get(database, {})

    def problem(key: bytes, value: bytes) -> str | None:
        try:
            readers.get(key[:1], _anything)(key, value)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record is not what was written
            return f"it cannot be read: {type(error).__name__}: {error}"
        return None

    return problem
