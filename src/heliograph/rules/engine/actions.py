"""What is done with a row: the actions that run in the broker, each compiled from its settings.

An action is a function `(row, columns)` that does its work, tells how many bytes it made, or raises `ActionError`. It
runs in the event loop, in the middle of a packet: messages go to the `Outlet`, which publishes them in a later turn.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from heliograph.broker.internal_publish_queue import InternalPublishQueue, MessageTemplate
from heliograph.broker.message import Message, make_message
from heliograph.config.republish import RepublishAction
from heliograph.config.rules import Action, NamedAction, PipelineAction
from heliograph.mqtt import properties as props
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties, encode_properties, properties_from_wire
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, has_wildcard, is_brokers_own, topic_name_fault, without_delay
from heliograph.rules.engine.columns import EventColumns, LiveColumns
from heliograph.rules.engine.counters import RuleCounters
from heliograph.rules.engine.errors import ActionError
from heliograph.rules.engine.template import (
    Read,
    Render,
    compile_template,
    compile_value,
    fixed_text,
    row_text,
    stored_text,
)
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import UNDEFINED, Value

Row: TypeAlias = Mapping[str, Value]
Run: TypeAlias = Callable[[Row, LiveColumns], int]
_MADE_BY_MAX: Final = 32  # rules through which one message may make another
_PAYLOAD_BYTES_MAX: Final = 268_435_455 - 200_000  # of a packet, with room for the largest topic and properties
_ORIGINAL: Final = "${pub_props.'User-Property'}"
_IDENTIFIERS: Final = {name: identifier for identifier, name in props.NAMES.items()}
_NUMBERS: Final = {"Payload-Format-Indicator": 1, "Message-Expiry-Interval": 0xFFFF_FFFF}
BROKERS_OWN: Final = "is the broker's own: rules publish there only with sys_topics.allow_publish = true"
PIPELINE_PREFIX: Final = "$pipeline/"
"""The prefix of the topics under which rows are stored for the pipeline; only rules can publish to them."""


class Outlet(Protocol):
    """Where actions put what they make; the engine has it."""

    @property
    def messages(self) -> InternalPublishQueue: ...

    def store(self, message: Message, is_urgent: bool, counters: RuleCounters) -> int:
        """Store a message without publishing it, an urgent one only if storage has room; the ticket of its commit."""

    def print_row(self, rule_id: str, row: str) -> None: ...


def compile_action(
    action: Action, rule_id: str, counters: RuleCounters, outlet: Outlet, absent: Callable[[str], bool]
) -> Run:
    if isinstance(action, RepublishAction):
        return Republish(action, rule_id, counters, outlet, absent).compiled()
    if isinstance(action, PipelineAction):
        return _stored(PIPELINE_PREFIX + rule_id, rule_id, counters, outlet, "")
    if isinstance(action, NamedAction):
        if not action.is_on:
            return _off(counters)
        return _stored(f"{PIPELINE_PREFIX}{action.id}/{rule_id}", rule_id, counters, outlet, action.id)
    return _console(rule_id, counters, outlet)


class Republish:
    """Publishes a message of each row, whose client id is the rule's name, as in EMQX."""

    def __init__(
        self,
        settings: RepublishAction,
        rule_id: str,
        counters: RuleCounters,
        outlet: Outlet,
        absent: Callable[[str], bool],
    ) -> None:
        self._rule_id = rule_id
        self._counters = counters
        self._outlet = outlet
        fixed = fixed_text(settings.topic)
        self._fixed_topic = None if fixed is None else fixed.decode()
        self._topic = compile_template(settings.topic)
        # What a message names must not pass for what the broker says about itself; what the rule names may, if
        # `sys_topics.allow_publish` says so.
        self._names_brokers = names_brokers_topic(settings)
        self._payload: Render = compile_template(settings.payload) if settings.payload else row_text
        self._qos = _constant_or_value(settings.qos, 0, absent)
        self._retain = _constant_or_value(settings.retain, False, absent)
        self._directly = _constant_or_value(settings.direct_dispatch, False, absent)
        self._keeps_user_properties = settings.user_properties == _ORIGINAL
        self._user_properties = compile_value(settings.user_properties) if settings.user_properties else None
        self._mqtt_properties = {name: compile_value(text) for name, text in settings.mqtt_properties.items()}
        self._has_properties = bool(settings.user_properties or settings.mqtt_properties)

    def compiled(self) -> Run:
        """The action; a short way where messages differ in their payloads only."""
        topic, qos, retain, directly = self._fixed_topic, self._qos, self._retain, self._directly
        if topic is None or self._names_brokers or self._has_properties:
            return self.run
        if callable(qos) or callable(retain) or callable(directly):
            return self.run
        counters = self._counters.messages
        template = MessageTemplate(
            self._outlet.messages, topic, qos, bool(retain), self._rule_id, bool(directly), counters
        )
        put, payload, longer = template.put, self._payload, self.run

        def run(row: Row, columns: LiveColumns) -> int:
            if columns.made_by:
                return longer(row, columns)
            try:
                data = payload(row)
            except EvaluationFault as fault:
                raise ActionError(str(fault)) from None
            if len(data) > _PAYLOAD_BYTES_MAX:
                return longer(row, columns)  # which says so
            put(data)
            return len(data)

        return run

    def run(self, row: Row, columns: LiveColumns) -> int:
        """Make the message and hand it over."""
        message, directly = self.made(row, columns)
        self._outlet.messages.put(message, directly, self._counters.messages)
        return len(message.payload)

    def made(self, row: Row, columns: LiveColumns) -> tuple[Message, bool]:
        """The message of a row, and whether it goes past hooks and retainer.

        What this rule has made itself does not make it publish again.

        Raises:
            ActionError: No message can be made of it.
        """
        out, made_by, rule_id = self._outlet.messages, columns.made_by, self._rule_id
        if made_by and (rule_id in made_by or len(made_by) >= _MADE_BY_MAX):
            self._counters.recursions += 1
            raise ActionError(
                f"recursive_republish_detected: {columns.origin} was made by {', '.join(made_by)}, so that rule "
                f"{rule_id} does not publish for it"
            )
        try:
            topic = self._fixed_topic
            if topic is None:
                topic = _topic(self._topic(row))
            if topic.startswith("$") and is_brokers_own(without_delay(topic)):
                if out.broker.protects_sys:
                    raise ActionError(f"its topic {topic[:100]!r} {BROKERS_OWN}")
                if not self._names_brokers:
                    raise ActionError(f"its topic {topic[:100]!r} is the broker's own: begin it in the rule so")
            payload = self._payload(row)
            if len(payload) > _PAYLOAD_BYTES_MAX:
                raise ActionError(f"a payload of {len(payload):,} bytes does not fit a packet")
            property_bytes = self._properties(row, columns) if self._has_properties else b""
            qos = _qos(self._qos, row)
            retain = _flag("retain", self._retain, row)
            directly = _flag("direct_dispatch", self._directly, row)
            message = make_message(
                out.broker.now_us, out.ids.next_low(), topic, payload, qos, retain, property_bytes, rule_id, None
            )
        except (EvaluationFault, ProtocolError, ValueError) as error:
            raise ActionError(str(error)) from None
        message.made_by = (*made_by, rule_id)
        return message, directly

    def _properties(self, row: Row, columns: LiveColumns) -> bytes:
        properties = Properties()
        for name, read in self._mqtt_properties.items():
            _put_property(properties, name, read(row))
        if self._user_properties is not None:
            found = self._user_properties(row)
            if isinstance(found, dict):
                properties.user = [(key, _plain(value)) for key, value in found.items()]
            elif found is UNDEFINED and self._keeps_user_properties:
                properties.user = columns.user_properties()
            elif found is not UNDEFINED and found is not None:
                raise ActionError("user_properties needs a map")
        encoded = encode_properties(properties)
        properties_from_wire(encoded, props.ALLOWED_PUBLISH)  # what a client must not send, no rule may
        response_topic = properties.strings.get(props.RESPONSE_TOPIC, "")
        if has_wildcard(response_topic):  # [MQTT-3.3.2-14]
            raise ActionError(f"the Response-Topic {response_topic[:100]!r} holds a wildcard")
        return encoded


def _stored(topic: str, rule_id: str, counters: RuleCounters, outlet: Outlet, action_id: str) -> Run:
    def run(row: Row, columns: LiveColumns) -> int:
        if columns.made_by and action_id in columns.made_by:  # it was published as a fallback of this action
            counters.recursions += 1
            raise ActionError(
                f"recursive_republish_detected: {columns.origin} was made as a fallback of {action_id}, which does "
                "not get it again"
            )
        try:
            payload = stored_text(row)
        except EvaluationFault as fault:
            raise ActionError(str(fault)) from None
        out = outlet.messages
        low = out.ids.next_low()
        message = make_message(out.broker.now_us, low, topic, payload, 1, False, b"", rule_id, None)
        outlet.store(message, isinstance(columns, EventColumns), counters)
        return len(payload)

    return run


def _off(counters: RuleCounters) -> Run:
    def run(row: Row, columns: LiveColumns) -> int:
        counters.actions_off += 1
        return 0

    return run


def _console(rule_id: str, counters: RuleCounters, outlet: Outlet) -> Run:
    def run(row: Row, columns: LiveColumns) -> int:
        try:
            text = row_text(row).decode()
        except EvaluationFault:
            text = repr(dict(row))  # bytes have no JSON; people can read this
        outlet.print_row(rule_id, text)
        counters.actions_success += 1
        return len(text)

    return run


def action_fault(action: Action) -> str | None:
    """Why no row can be given to an action, as far as its settings say; None if one can."""
    fixed = fixed_text(action.topic) if isinstance(action, RepublishAction) else None
    if fixed is None:
        return None
    try:
        return topic_name_fault(_topic(fixed), MAX_TOPIC_BYTES)
    except ActionError as error:
        return str(error)


def names_brokers_topic(action: RepublishAction) -> bool:
    """Whether a rule itself says that its messages go below `$SYS/` or `$events/`."""
    fixed = fixed_text(action.topic)
    return is_brokers_own(without_delay(action.topic if fixed is None else fixed.decode()))


def _topic(data: bytes) -> str:
    if len(data) > MAX_TOPIC_BYTES:
        raise ActionError(f"a topic of {len(data):,} bytes; at most {MAX_TOPIC_BYTES:,} fit a packet")
    try:
        topic = data.decode()
    except UnicodeDecodeError:
        raise ActionError(f"the topic {data[:100]!r} is not UTF-8") from None
    if topic.startswith(PIPELINE_PREFIX):
        raise ActionError(f"{PIPELINE_PREFIX} belongs to the action pipeline; nothing is published there")
    return topic


def _constant_or_value(
    setting: int | bool | str, default: int | bool, absent: Callable[[str], bool]
) -> int | bool | Read:
    if not isinstance(setting, str):
        return setting
    name = setting[2:-1]
    return default if name.isidentifier() and absent(name) else compile_value(setting)


def _qos(read: int | bool | Read, row: Row) -> int:
    value = read(row) if callable(read) else read
    if value is UNDEFINED:
        return 0
    if isinstance(value, str) and value in ("0", "1", "2"):
        return int(value)
    if type(value) is int and 0 <= value <= 2:
        return value
    raise ActionError(f"qos is {_shown(value)}; 0, 1 and 2 are valid")


def _flag(name: str, read: int | bool | Read, row: Row) -> bool:
    value = read(row) if callable(read) else read
    if value is UNDEFINED:
        return False
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ActionError(f"{name} is {_shown(value)}; true and false are valid")


def _put_property(properties: Properties, name: str, value: Value) -> None:
    """Set a property; what is undefined, or no number where one belongs, is left out, as in EMQX."""
    if value is UNDEFINED or value is None or value == "undefined":
        return
    identifier = _IDENTIFIERS[name]
    if isinstance(value, bytes) and name == "Correlation-Data":
        properties.binaries[identifier] = value
        return
    text = _plain(value)
    if name in _NUMBERS:
        if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _NUMBERS[name]:
            properties.numbers[identifier] = int(text)
    elif name == "Correlation-Data":
        properties.binaries[identifier] = text.encode()
    else:
        properties.strings[identifier] = text


def _plain(value: Value) -> str:
    if isinstance(value, str):
        return value
    text = compile_template("${value}")({"value": value})
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ActionError("a property holds text that is not UTF-8") from None


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


class _Rows:
    __slots__ = ("count", "counters", "rule_id", "ticket", "topic")

    def __init__(self, ticket: int, rule_id: str, topic: str, counters: RuleCounters) -> None:
        self.ticket = ticket
        self.rule_id = rule_id
        self.topic = topic
        self.counters = counters
        self.count = 1


class StoredRows:
    """The rows of a node that are not stored yet; owned by the engine. Storage bounds how many there are.

    Attributes:
        stored_topics: Topics of rows that were stored; the engine takes them out when it passes them on.
    """

    def __init__(self) -> None:
        self.stored_topics: set[str] = set()
        self._waiting: deque[_Rows] = deque()  # in the order of their tickets

    def add(self, ticket: int, rule_id: str, topic: str, counters: RuleCounters) -> None:
        """Count a row that storage took under a ticket not below those before."""
        waiting = self._waiting
        if waiting and waiting[-1].ticket == ticket and waiting[-1].topic == topic:
            waiting[-1].count += 1
        else:
            waiting.append(_Rows(ticket, rule_id, topic, counters))

    def done(self, ticket: int, is_stored: bool) -> Iterator[tuple[str, int]]:
        """Count the rows up to a ticket; gives each rule with the number of rows that were not stored."""
        while self._waiting and self._waiting[0].ticket <= ticket:
            rows = self._waiting.popleft()
            if is_stored:
                rows.counters.actions_pending += rows.count
                self.stored_topics.add(rows.topic)
            else:
                rows.counters.actions_failed += rows.count
                yield rows.rule_id, rows.count

    def __repr__(self) -> str:
        return f"StoredRows({sum(rows.count for rows in self._waiting)} waiting)"
