"""The names of the options of the data source ``heliograph``, and what is meant by another name.

An unknown option would be passed over, and what is read or published would not be what was meant. So it is refused,
with the name that it is close to, or the one that has its meaning here where it is an option of Spark's Kafka source.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from heliograph.pipeline.errors import OptionError
from heliograph.settings.fields import settings_of
from heliograph.settings.kinds import Kind, RefusedError

#: Options of a streaming write that are Spark's own, and handed on to the sink.
_OF_SPARK: Final = ("checkpointlocation",)

_NO_GROUPS: Final = "left out: there are no consumer groups, a stream keeps its place in its checkpoint"
_NO_PATH: Final = "left out: topics are named by the option topics"

#: What is meant by names that are no options of a read.
SOURCE_HINTS: Final[Mapping[str, str]] = {
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
#: What is meant by names that are no options of a write.
SINK_HINTS: Final[Mapping[str, str]] = {
    "path": "left out: each row names its topic in the column topic",
    "kafka.bootstrap.servers": "host and port here: those of the MQTT broker",
    "topic": "left out: each row names its topic in the column topic (lit('a/b').alias('topic') for one topic)",
    "includeheaders": "left out: give the rows a column properties",
    "endpoint": "host and port here: rows are published over MQTT",
    "retain": "left out: give the rows a column retain",
}
_KAFKA: Final = "kafka."


def read_options(model: type[Any], options: Mapping[str, str], hints: Mapping[str, str]) -> dict[str, Any]:
    """What options say, by the fields of a group of settings.

    Args:
        model: The group.
        options: The text of each option.
        hints: What is meant by names that are no options here.

    Raises:
        OptionError: One is not known, or has a value that is not valid.
    """
    settings = settings_of(model)
    _check(options, tuple(settings), hints)
    values: dict[str, Any] = {}
    for name, setting in settings.items():  # Spark's mapping knows them in any case, and gives them in small letters
        if name not in options:
            continue
        text, kind = options[name], setting.kind
        assert isinstance(kind, Kind)
        try:
            values[setting.field] = kind.convert(text)
        except RefusedError as refusal:
            detail = f": {refusal}" if str(refusal) else ""
            raise OptionError(name, text, f"{kind.expected}{detail}") from None
    return values


def _check(options: Mapping[str, str], valid: Sequence[str], hints: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in valid}
    for name, value in options.items():
        folded = name.lower()
        if folded not in known and folded not in _OF_SPARK:
            raise OptionError(name, value, hints.get(folded) or _nearest(folded, known))


def _nearest(name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"left out, or did you mean {known[near[0]]}?"
    told = "left out, since this is no Kafka" if name.startswith(_KAFKA) else "left out"
    return f"{told}; there are {', '.join(known.values())}"
