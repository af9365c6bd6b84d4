"""Fuzz target: whole channels of one kernel; any packets in any order, and everything that happens around them.

An input is a program: its first bytes say what is configured and hooked in, each byte behind them what happens next.
"""

from typing import Final

from fuzz.grammar import CLIENTIDS, packet
from fuzz.source import Source
from fuzz.watched import Watched
from fuzz.world import World
from heliograph.mqtt import packets as p

_STEPS_MAX: Final = 80
_PEERS_MAX: Final = 6
_VERSIONS: Final = (p.V5, p.V5, p.V3_1_1, p.V3_1)
# What a client sends, the more frequent the more often; the last ones are not its to send.
_KINDS: Final = (
    p.PUBLISH, p.PUBLISH, p.PUBLISH, p.PUBLISH, p.SUBSCRIBE, p.SUBSCRIBE, p.SUBSCRIBE, p.UNSUBSCRIBE,
    p.PUBACK, p.PUBACK, p.PUBREC, p.PUBREL, p.PUBREL, p.PUBCOMP, p.PINGREQ, p.DISCONNECT, p.AUTH, p.AUTH,
    p.CONNECT, p.CONNACK, p.SUBACK, p.UNSUBACK, p.PINGRESP, 0,
)  # fmt: skip
_CODES: Final = (0, 0x80, 0x97)
_TIMES_S: Final = (0.001, 0.5, 2.0, 5.0, 20.0, 100.0)
_OWN_TOPICS: Final = ("a", "denied/a", "stored/a", "r/a", "a/b/c", "/", "$delayed/1/a")
_REVOCABLE: Final = ("a", "b", "r", "stored", "auto")
_REPEATS: Final = 40
_BUSY_WORK: Final = 50_000  # more than a turn's: what comes next has to wait for another one


class Play:
    """One input as it is played."""

    def __init__(self, data: bytes) -> None:
        self._source = Source(data)
        self._world = World(self._source)
        self._peers: list[Watched] = []

    def run(self) -> None:
        """Play it to its end, and see that nothing is left."""
        for _ in range(_STEPS_MAX):
            if not len(self._source):
                break
            self._step()
            for peer in self._peers:
                peer.check()
            self._world.check_bounds()
        for peer in self._peers:
            peer.drop()
            peer.check()
        self._world.end()

    def _step(self) -> None:
        source, world = self._source, self._world
        what = source.below(32)
        if what < 3 or not self._peers:
            self._connect()
        elif what < 22:
            self._talk(source.pick(self._peers), what)
        elif what == 22:
            source.pick(self._peers).drop()
        elif what <= 24:
            world.advance(source.pick(_TIMES_S))
        elif what == 25:
            world.commit(source.pick(_CODES))
        elif what == 26:
            source.pick(self._peers).congest()
        elif what == 27:
            source.pick(self._peers).peer.wire.stuck = True
        elif what == 28:
            world.on_behalf(source.pick(CLIENTIDS).decode(), source.below(3))
        elif what == 29:
            world.resolve(source.pick((0, 0x18, 0x87)))
        elif what == 30:
            world.revoked ^= {source.pick(_REVOCABLE)}
        else:
            self._surroundings()

    def _connect(self) -> None:
        source = self._source
        if len(self._peers) >= _PEERS_MAX:
            self._peers.pop(0).drop()
        peer = Watched(self._world, source.pick(_VERSIONS))
        self._peers.append(peer)
        if not source.rarely():
            peer.say(packet(source, peer.version, p.CONNECT))
            self._world.run()

    def _talk(self, peer: Watched, what: int) -> None:
        source = self._source
        if what < 17:
            data = packet(source, peer.version, source.pick(_KINDS))
        elif what == 17:
            data = source.short()
        else:
            data = b"".join(packet(source, peer.version, source.pick(_KINDS)) for _ in range(3))
        if what == 19:
            self._world.broker.work += _BUSY_WORK
        if what == 20:
            data *= _REPEATS
        if what == 21:
            at = source.below(len(data) + 1) if len(data) < 256 else source.byte()
            peer.say(data)
            peer.say(data[:at])
            self._world.run()
            data = data[at:]
        peer.say(data)
        if not source.rarely():
            self._world.run()

    def _surroundings(self) -> None:
        source, world = self._source, self._world
        what = source.below(4)
        if what == 0:
            world.publish(source.pick(_OWN_TOPICS), source.flag())
        elif what == 1:
            world.sink.full = not world.sink.full
        elif what == 2:
            world.sink.cut()
        else:
            world.turn()


def run(data: bytes) -> None:
    """One input."""
    Play(data).run()
