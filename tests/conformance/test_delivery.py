"""What the flows are for: with clients that keep to the specification, however they come and go and however late they
answer, QoS 1 arrives at least once, QoS 2 exactly once, both in order, and no limit of a client is exceeded."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.dialogue import V5, Client, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from support.forms import examples
from support.strategies import VERSIONS  # sets the profile of properties

TOPICS = ("a/x", "a/y", "b")


@dataclass
class Receiver:
    """A client that subscribes to everything and keeps its session; it remembers what the specification asks it to."""

    world: World
    qos: int
    window: int
    alias_max: int
    client: Client = field(init=False)
    answers: list[str] = field(default_factory=list)  # what it has yet to say
    in_flight: list[int] = field(default_factory=list)  # in the order of their PUBLISH packets
    got: dict[tuple[bytes, int], list[int]] = field(default_factory=dict)  # numbers by topic and QoS
    _taken: set[int] = field(default_factory=set)  # QoS 2 identifiers without PUBREL
    _unfinished: list[int] = field(default_factory=list)  # what was in flight when the connection was lost
    _topics: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.come(is_first=True)
        self.client.says(f'82 # 0001 {{}} "#" {self.qos:02x}')
        self.client.hears(f"90 # 0001 {{}} {self.qos:02x}")

    def come(self, *, is_first: bool = False) -> None:
        named = f"21 {self.window:04x} 22 {self.alias_max:04x}"
        self._unfinished, self.in_flight = self.in_flight + self._unfinished, []
        self._topics, self.answers = {}, []
        self.client = self.world.connect("sub", clean=is_first, kept=True, properties=named)
        assert self.client.connack.session_present is not is_first

    def listen(self) -> None:
        for packet in self.client.packets():
            if isinstance(packet, p.Publish):
                self._on_publish(packet)
            else:
                assert isinstance(packet, p.Ack)
                assert packet.kind == p.PUBREL
                if packet.packet_id not in self.in_flight:
                    self._begins(packet.packet_id, is_again=True)
                self._taken.discard(packet.packet_id)
                self.answers.append(f"70 # {packet.packet_id:04x}")
            if self.world.version == V5:
                assert len(self.in_flight) <= self.window

    def answer(self, count: int) -> None:
        for _ in range(min(count, len(self.answers))):
            answer = self.answers.pop(0)
            packet_id = int(answer[-4:], 16)
            if not answer.startswith("50"):
                self.in_flight.remove(packet_id)
            self.client.says(answer)
            self.listen()

    def _on_publish(self, packet: p.Publish) -> None:
        packet_id = int(packet.packet_id)
        if packet.qos:
            self._begins(packet_id, is_again=packet.dup)
            self.answers.append(f"{0x30 + 0x10 * packet.qos:02x} # {packet_id:04x}")
        if packet.qos == 2 and packet_id in self._taken:
            assert packet.dup
            return
        if packet.qos == 2:
            self._taken.add(packet_id)
        self.got.setdefault((self._topic(packet), int(packet.qos)), []).append(int(packet.payload))

    def _begins(self, packet_id: int, *, is_again: bool) -> None:
        """A delivery under this identifier; all that are sent again come first, in their old order."""
        assert packet_id not in self.in_flight
        assert is_again is bool(self._unfinished)
        if is_again:
            assert self._unfinished.pop(0) == packet_id
        self.in_flight.append(packet_id)

    def _topic(self, packet: p.Publish) -> bytes:
        if self.world.version != V5:
            return packet.topic
        named = props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
        alias = named.number(props.TOPIC_ALIAS, 0)
        assert alias <= self.alias_max
        if alias and packet.topic:
            self._topics[alias] = packet.topic
        return packet.topic or self._topics[alias]


def publish(pub: Client, topic: str, qos: int, number: int) -> None:
    """One message, with all that its publisher has to say."""
    identifier = f"{number:04x}" if qos else ""
    pub.says(f"{0x30 + 2 * qos:02x} # \"{topic}\" {identifier} {{}} '{number}'")
    if qos == 2:
        pub.says(f"3c # \"{topic}\" {identifier} {{}} '{number}'", f"62 # {identifier}")


@both_versions
@settings(max_examples=examples(200))
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)),
            st.tuples(st.just("answer"), st.integers(1, 4)),
            st.tuples(st.sampled_from(["come back", "leave", "time", "congest", "relax"]), st.just(0)),
        ),
        max_size=60,
    ),
    qos=st.integers(0, 2),
    window=st.integers(1, 4),
    alias_max=st.integers(0, 2),
)
@proves("MQTT-4.3.2-3", "MQTT-4.3.3-6", "MQTT-4.3.3-10", "MQTT-4.4.0-1", "MQTT-4.5.0-1", "MQTT-4.6.0-5", "MQTT-4.9.0-2")
@proves("3.1.1 MQTT-4.3.2-1", "3.1.1 MQTT-4.3.3-1", "3.1.1 MQTT-4.4.0-1", "3.1.1 MQTT-4.5.0-1", "3.1.1 MQTT-4.6.0-6")
def test_everything_arrives(version: int, steps: list[tuple[str, int]], qos: int, window: int, alias_max: int) -> None:
    assert version in VERSIONS
    world = World(version)
    sub = Receiver(world, qos, window, alias_max)
    pub = world.connect("pub")
    sent: dict[tuple[bytes, int], list[int]] = {}
    for number, (what, count) in enumerate(steps, start=1):
        if what == "answer":
            sub.answer(0 if sub.client.peer.lost else count)
        elif what == "time":
            world.advance(20)
        elif what in ("congest", "relax") and not sub.client.peer.lost:
            sub.client.peer.congest(what == "congest")
        elif what in ("leave", "come back"):
            sub.client.drops()
            if what == "come back":
                sub.come()
        elif what in TOPICS:
            publish(pub, what, count, number)
            sent.setdefault((what.encode(), min(qos, count)), []).append(number)
        if not sub.client.peer.lost:
            sub.listen()
    if sub.client.peer.lost:
        sub.come()
    sub.client.peer.congest(False)
    sub.listen()
    while sub.answers:
        sub.answer(len(sub.answers))
        sub.listen()
    for key, numbers in sub.got.items():
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first)
        assert set(first) <= set(sent[key])
        assert key[1] == 1 or first == numbers
    for key, numbers in sent.items():
        assert key[1] == 0 or list(dict.fromkeys(sub.got.get(key, []))) == numbers
