"""The names of the options of the data source ``heliograph``, and what is meant by a name that is none of them.

An unknown option would be passed over, and what is read or published would not be what was meant. So it is refused,
with the name that it is close to, or the one that has its meaning here where it is an option of Spark's Kafka source.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from heliograph.pipeline.errors import OptionError

#: All options of a read.
SOURCE_OPTIONS: Final = (
    *("endpoint", "token", "tokenFile", "tlsCa", "tlsCert", "tlsKey", "database", "topics", "start", "end", "timeZone"),
    *("columns", "maxMessagesPerTrigger", "maxBytesPerTrigger", "partitionMessages", "partitionBytes"),
    *("failOnDataLoss", "onDamage", "pushFilters", "schema", "jsonSchema", "schemas", "mode"),
)

#: All options of a write.
SINK_OPTIONS: Final = (
    *("host", "port", "clientid", "username", "password", "qos", "window", "ackTimeout", "connectTimeout"),
    *("connectAttempts", "tls", "tlsVerify", "tlsCa", "tlsCert", "tlsKey"),
)

#: Options of a streaming write that are Spark's own, and handed on to the sink.
_OF_SPARK: Final = ("checkpointlocation",)

_NO_GROUPS: Final = "left out: there are no consumer groups, a stream keeps its place in its checkpoint"
_NO_PATH: Final = "left out: topics are named by the option topics"

_SOURCE_HINTS: Final[Mapping[str, str]] = {
    "path": _NO_PATH,
    "kafka.bootstrap.servers": "endpoint here: host:port of the storage reader",
    "subscribe": "topics here, which takes MQTT topic filters separated by commas",
    "subscribepattern": "topics here, which takes MQTT topic filters such as sensors/+/temp",
    "assign": "topics here; which shards are read, a condition on the column shard says",
    "startingoffsets": "start here: earliest, latest, a time or an offset",
    "startingtimestamp": "start here: earliest, latest, a time or an offset",
    "startingoffsetsbytimestamp": "start here: earliest, latest, a time or an offset",
    "endingoffsets": "end here: latest, a time or an offset",
    "endingtimestamp": "end here: latest, a time or an offset",
    "endingoffsetsbytimestamp": "end here: latest, a time or an offset",
    "maxoffsetspertrigger": "maxMessagesPerTrigger here",
    "minpartitions": "partitionMessages here, the messages of one partition",
    "maxrecordsperpartition": "partitionMessages here",
    "groupidprefix": _NO_GROUPS,
    "kafka.group.id": _NO_GROUPS,
    "includeheaders": "left out: the column properties is always there",
    "ondecodeerror": "mode here: PERMISSIVE, DROPMALFORMED or FAILFAST",
}
_SINK_HINTS: Final[Mapping[str, str]] = {
    "path": "left out: each row names its topic in the column topic",
    "kafka.bootstrap.servers": "host and port here: those of the MQTT broker",
    "topic": "left out: each row names its topic in the column topic (lit('a/b').alias('topic') for one topic)",
    "includeheaders": "left out: give the rows a column properties",
    "endpoint": "host and port here: rows are published over MQTT",
    "retain": "left out: give the rows a column retain",
}
_KAFKA: Final = "kafka."


def check_source_names(options: Mapping[str, str]) -> None:
    """Refuse names that are no options of a read.

    Raises:
        OptionError: There is one; it says which name may be meant.
    """
    _check(options, SOURCE_OPTIONS, _SOURCE_HINTS)


def named_as_documented(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a read whose names may be in any case, as Spark takes them, by the names that the source knows."""
    known = {name.lower(): name for name in SOURCE_OPTIONS}
    return {known.get(name.lower(), name): text for name, text in options.items()}


def check_sink_names(options: Mapping[str, str]) -> None:
    """Refuse names that are no options of a write.

    Raises:
        OptionError: There is one; it says which name may be meant.
    """
    _check({name: text for name, text in options.items() if name.lower() not in _OF_SPARK}, SINK_OPTIONS, _SINK_HINTS)


def _check(options: Mapping[str, str], valid: Sequence[str], hints: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in valid}
    for name, value in options.items():
        folded = name.lower()
        if folded not in known:
            raise OptionError(name, value, hints.get(folded) or _nearest(folded, known))


def _nearest(name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"left out, or did you mean {known[near[0]]}?"
    told = "left out, since this is no Kafka" if name.startswith(_KAFKA) else "left out"
    return f"{told}; there are {', '.join(known.values())}"
