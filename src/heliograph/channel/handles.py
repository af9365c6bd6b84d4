"""What a node calls on its channels: one small interface for each thing that a channel waits for."""

from collections.abc import Callable

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.client import ClientInfo
from heliograph.broker.fanout import Spreader
from heliograph.broker.pending import Pending
from heliograph.channel.option_changes import OptionChanges
from heliograph.mqtt.packets import SubscribeEntry


@mypyc_attr(allow_interpreted_subclasses=True)
class CommitWaiter:
    """What waits for storage commits, as `Commits` calls it."""

    def on_committed(self, ticket: i64, code: int) -> None:
        """The commit with this ticket is done: `code` 0, or refused with that reason code."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close the connection at once: it raised where others are handled too."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReaderHandle(Spreader):
    """What has paused reading, as `Turns` and `Commits` wake it; and as `Fanouts` do, by the methods of its base."""

    def on_room(self) -> None:
        """Storage takes messages again."""
        raise NotImplementedError

    def on_turn(self) -> None:
        """It has its turn now."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelHandle:
    """What serves a client, as `ChannelTable` and the node call it: ticks, takeover, kick; here or on another node."""

    def on_tick(self, uptime_us: i64) -> None:
        raise NotImplementedError

    def take_over(self, discard: bool) -> Pending[bool] | None:
        """Part from the client: another connection has its id now.

        Args:
            discard: The other connection begins a session of its own.

        Returns:
            Whether it has parted, where that takes longer than this call: its session is not opened before; a
            `Pending` of its own for each call. None if it has.
        """
        raise NotImplementedError

    def shut_down(self, code: int) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        """Close the connection at once: it raised where others are handled too."""
        raise NotImplementedError

    def subscribe(self, entries: list[SubscribeEntry]) -> list[int]:
        """Subscribe on the client's behalf: a reason code for each filter; none if the client is not connected."""
        raise NotImplementedError

    def subscribe_unasked(self, entries: list[SubscribeEntry], done: Callable[[list[int]], None]) -> None:
        """Subscribe as if the client had sent a SUBSCRIBE, which may be denied; `done` gets the reason codes."""
        raise NotImplementedError

    def unsubscribe(self, topic_filters: list[str]) -> list[int]:
        """Unsubscribe on the client's behalf: a reason code for each filter; none if the client is not connected."""
        raise NotImplementedError

    def client_info(self) -> ClientInfo | None:
        return None

    def buffered_bytes(self) -> int:
        """Bytes that closing it would free: what waits for the peer, or for its next packet to be whole.

        What its session queues is among them only if the session ends with the connection; else it would wait on, and
        for longer than with its reader there.
        """
        return 0

    def held_bytes(self, shared: dict[int, int]) -> tuple[int, int]:
        """Bytes that the connection holds beside its session, and those of the topic aliases that its client set.

        Args:
            shared: Where larger pieces are noted instead, by the identity of the object: others may hold them too.
        """
        return 0, 0

    def change_options(self, changes: OptionChanges) -> None:
        """Go on with the options that it has from now on; it keeps those that it began with if it has none of these."""

    def cut(self, code: int, why: str) -> None:
        """End the conversation at once: what waits for the peer is lost."""
        self.shut_down(code)


@mypyc_attr(allow_interpreted_subclasses=True)
class TapSource:
    """Says which connections are tapped; owned by the node, and joined to the channels while a trace is on."""

    def on_connection(self, channel: ChannelHandle, peername: str) -> None:
        """A connection was accepted; `taps.attach` taps it."""
        raise NotImplementedError(type(self).__name__)
