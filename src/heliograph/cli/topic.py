"""`heliograph topic`: says which filter matches which topic, and what of both is valid, exactly as the broker decides.

The rules are those of `heliograph.mqtt.topic`; here is only how cases come in and answers go out.
"""

import argparse
import base64
import binascii
import json
import sys
from typing import BinaryIO, Final

from heliograph.cli.usage import Actions, fail
from heliograph.mqtt.topic import (
    MAX_TOPIC_BYTES,
    bare_filter,
    split_share,
    subscription_fault,
    topic_filter_fault,
    topic_matches,
    topic_name_fault,
)

_LEVELS_MAX: Final = MAX_TOPIC_BYTES + 1  # as many as fit: operators' limits are not asked about here
_LINE_BYTES_MAX: Final = 16_777_216

_DESCRIPTION: Final = """\
A topic filter is taken as a SUBSCRIBE carries it: $share/GROUP/, $queue/ or $exclusive/ may stand before it.
Every answer is one line of JSON; the exit code is 0 for yes and 1 for no."""

_BATCH: Final = """\
--batch reads one case per line from standard input and writes one answer per line:

  {"want": "match", "filter": F, "topic": T}    {"match": true|false}; what is not valid matches nothing
  {"want": "valid", "filter": F, "topic": T}    {"valid": true|false}; of one of them, or of both
  {"want": "parse", "filter": F}                {"parse": {"group": G|null, "filter": F}}, or false if it is not valid

"subscription": true takes the filter with its prefix ($share/GROUP/ and the like), as parse always does. F and T are
texts, {"$base64": "..."} for raw bytes, or {"$repeat": [TEXT, N]}. A line that is no such case is answered with
{"error": "..."}."""


def add_parser(subparsers: Actions) -> None:
    """Add `topic` and its actions to the command's parser."""
    topic = subparsers.add_parser(
        "topic", help="match, parse and validate topics and topic filters", description=_DESCRIPTION
    )
    actions = topic.add_subparsers(dest="action", required=True, metavar="ACTION")
    match = actions.add_parser(
        "match",
        help="say whether a filter matches a topic",
        description=_DESCRIPTION,
        epilog=_BATCH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    match.add_argument("filter", nargs="?", metavar="FILTER", help="topic filter")
    match.add_argument("topic", nargs="?", metavar="TOPIC", help="topic name")
    match.add_argument("--batch", action="store_true", help="read cases as JSON lines from standard input")
    parse = actions.add_parser(
        "parse", help="take a filter's group and the filter proper apart", description=_DESCRIPTION
    )
    parse.add_argument("filter", metavar="FILTER", help="topic filter")
    validate = actions.add_parser("validate", help="say whether a filter or a topic is valid", description=_DESCRIPTION)
    validate.add_argument("text", metavar="FILTER|TOPIC", help="topic filter; with --topic, a topic name")
    validate.add_argument("--topic", action="store_true", help="take it as a name to publish to")
    topic.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out what the options ask for; the exit code."""
    if args.action == "match" and args.batch:
        if args.filter is not None:
            return fail("topic", "--batch reads its cases from standard input: leave out FILTER and TOPIC", 2)
        _answer_lines(sys.stdin.buffer)
        return 0
    if args.action == "match":
        if args.topic is None:
            return fail("topic", "give FILTER and TOPIC, or --batch", 2)
        return _match(_bytes_of(args.filter), _bytes_of(args.topic))
    if args.action == "parse":
        return _parse(_bytes_of(args.filter))
    return _validate(_bytes_of(args.text), args.topic)


def _bytes_of(argument: str) -> bytes:
    # What of the command line is not UTF-8 came as surrogates; as bytes it is refused like any other such text.
    return argument.encode("utf-8", "surrogateescape")


def _match(topic_filter: bytes, topic: bytes) -> int:
    _note(_filter_fault(topic_filter, True))
    _note(_name_fault(topic))
    return _answer("match", matches(topic_filter, topic, True))


def _parse(topic_filter: bytes) -> int:
    parsed = parse(topic_filter, True)
    if parsed is False:
        _note(_filter_fault(topic_filter, True))
    print(json.dumps({"parse": parsed}), flush=True)
    return 1 if parsed is False else 0


def _validate(text: bytes, is_name: bool) -> int:
    fault = _name_fault(text) if is_name else _filter_fault(text, True)
    _note(fault)
    return _answer("valid", fault is None)


def _answer(want: str, answer: bool) -> int:
    print(json.dumps({want: answer}), flush=True)
    return 0 if answer else 1


def _note(fault: str | None) -> None:
    if fault is not None:
        shown = fault if len(fault) <= 300 else f"{fault[:200]} ... {fault[-80:]}"
        print(shown, file=sys.stderr, flush=True)


# --- the answers


def _filter_fault(topic_filter: bytes, subscription: bool) -> str | None:
    """Why bytes are no valid topic filter, or None if they are one.

    Args:
        subscription: Whether they stand as in a SUBSCRIBE, share prefix and all.
    """
    text = _text(topic_filter)
    if text is None:
        return _text_fault(topic_filter, "topic filter")
    return subscription_fault(text, _LEVELS_MAX) if subscription else topic_filter_fault(text, _LEVELS_MAX)


def _name_fault(topic: bytes) -> str | None:
    """Why bytes are no valid topic name, or None if they are one."""
    text = _text(topic)
    return _text_fault(topic, "topic name") if text is None else topic_name_fault(text, _LEVELS_MAX)


def matches(topic_filter: bytes, topic: bytes, subscription: bool) -> bool:
    """Whether a filter matches a topic name; what is not valid matches nothing."""
    if _filter_fault(topic_filter, subscription) is not None or _name_fault(topic) is not None:
        return False
    text = topic_filter.decode("utf-8")
    return topic_matches(topic.decode("utf-8"), bare_filter(text) if subscription else text)


def parse(topic_filter: bytes, subscription: bool) -> dict[str, str | None] | bool:
    """The group that a filter shares with, None for none, and the filter proper; False if it is not valid."""
    if _filter_fault(topic_filter, subscription) is not None:
        return False
    text = topic_filter.decode("utf-8")
    if not subscription:
        return {"group": None, "filter": text}
    group, _ = split_share(text)
    return {"group": group or None, "filter": bare_filter(text)}


def _text(raw: bytes) -> str | None:
    if len(raw) > MAX_TOPIC_BYTES:  # [MQTT-4.7.3-3]
        return None
    try:
        return raw.decode("utf-8")  # [MQTT-1.5.4-1]
    except UnicodeDecodeError:
        return None


def _text_fault(raw: bytes, what: str) -> str:
    if len(raw) > MAX_TOPIC_BYTES:
        return f"the {what} has more than {MAX_TOPIC_BYTES} bytes"
    return f"the {what} is not UTF-8"


# --- a batch


class TopicCaseError(Exception):
    """A line of a batch is no case that can be answered; the message says why."""


def _answer_lines(lines: BinaryIO) -> None:
    """Answer every line of a stream on standard output, in order."""
    while line := lines.readline(_LINE_BYTES_MAX + 1):
        try:
            if len(line) > _LINE_BYTES_MAX:
                while line and not line.endswith(b"\n"):
                    line = lines.readline(_LINE_BYTES_MAX)
                raise TopicCaseError(f"the line has more than {_LINE_BYTES_MAX} bytes")
            answer = _answer_case(line)
        except TopicCaseError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)  # the caller may wait for it before sending more


def _answer_case(line: bytes) -> dict[str, object]:
    """The answer to one case.

    Raises:
        CaseError: It is not one.
    """
    case = _case(line)
    subscription = case.get("subscription", case.get("want") == "parse")
    if not isinstance(subscription, bool):
        raise TopicCaseError(f'"subscription" is {_shown(subscription)}; true or false are valid')
    want = case.get("want", "match")
    if want == "match":
        return {"match": matches(_required(case, "filter"), _required(case, "topic"), subscription)}
    if want == "parse":
        return {"parse": parse(_required(case, "filter"), subscription)}
    if want == "valid":
        return {"valid": _is_valid(case, subscription)}
    raise TopicCaseError(f'"want" is {_shown(want)}; "match", "valid" and "parse" are valid')


def _case(line: bytes) -> dict[str, object]:
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TopicCaseError(f"not a line of JSON: {error}") from None
    if not isinstance(case, dict):
        raise TopicCaseError(f"{_shown(case)} is no object")
    return case


def _is_valid(case: dict[str, object], subscription: bool) -> bool:
    topic_filter, topic = _optional(case, "filter"), _optional(case, "topic")
    if topic_filter is None and topic is None:
        raise TopicCaseError('"valid" needs "filter" or "topic"')
    filter_valid = topic_filter is None or _filter_fault(topic_filter, subscription) is None
    return filter_valid and (topic is None or _name_fault(topic) is None)


def _required(case: dict[str, object], key: str) -> bytes:
    value = _optional(case, key)
    if value is None:
        raise TopicCaseError(f'{_shown(case.get("want", "match"))} needs "{key}"')
    return value


def _optional(case: dict[str, object], key: str) -> bytes | None:
    value = case.get(key)
    return None if value is None else _value(value, key)


def _value(value: object, key: str) -> bytes:
    if isinstance(value, str):
        # Surrogates that stand alone have no UTF-8; what stands for them here is refused as any other wrong bytes.
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "$base64" and isinstance(content, str):
            return _decoded(content, key)
        if kind == "$repeat" and isinstance(content, list) and len(content) == 2:
            return _repeated(content[0], content[1], key)
    raise TopicCaseError(
        f'"{key}" is {_shown(value)}; a text, {{"$base64": TEXT}} and {{"$repeat": [TEXT, N]}} are valid'
    )


def _decoded(text: str, key: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TopicCaseError(f'"{key}" is not valid base64: {error}') from None


def _repeated(text: object, times: object, key: str) -> bytes:
    if not isinstance(times, int) or isinstance(times, bool) or times < 0:
        raise TopicCaseError(f'"{key}" is repeated {_shown(times)} times; an integer of at least 0 is valid')
    unit = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else _value(text, key)
    # Beyond the limit there is no difference, and no number may cost memory.
    return unit * min(times, MAX_TOPIC_BYTES // max(1, len(unit)) + 1)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]}..."
