"""What can be asked of the clients of a node, connected or away, and done with them."""

from collections.abc import Iterator, Sequence

from heliograph.broker.walkable import Listed
from heliograph.channel.client_listing import WantedClients
from heliograph.channel.context import ChannelContext
from heliograph.channel.kicking import kick
from heliograph.control.client_pages import wanted_clients
from heliograph.control.proto_v1 import clients as proto
from heliograph.control.proto_v1.client_pages import ClientsFilter
from heliograph.control.sessions import behind_since_us, every_session, held_session, no_client
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import Call, Method
from heliograph.session.durable import DurableSession
from heliograph.session.known import Asleep
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


def methods(context: ChannelContext) -> list[Method]:
    """What can be asked: `clients.list`, `clients.show`, `clients.kick`."""
    answers = ClientsAnswers(context)
    return [
        proto.CLIENTS_LIST.by(answers.list),
        proto.CLIENTS_SHOW.by(answers.show),
        proto.CLIENTS_KICK.by(answers.kick),
    ]


class ClientsAnswers:
    """Answers what is asked of clients; owned by the control socket."""

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._channels = context.channels

    def list(self, args: proto.ClientsWanted, call: Call) -> Iterator[Sequence[proto.ClientRow]]:
        """Answer `clients.list`: every session that matches, those that are on the disk only among them."""
        return in_slices(self._rows(_wanted(args), args.limit), _length)

    async def show(self, args: proto.ClientId, call: Call) -> proto.ClientDetails:
        """Answer `clients.show`; a session that is on the disk only is read for it."""
        return self._details(await held_session(self._context, args.clientid))

    async def kick(self, args: proto.ClientId, call: Call) -> proto.Kicked:
        """Answer `clients.kick`: end the connection and the session, wherever it is."""
        if not self._context.sessions.knows(args.clientid):
            await held_session(self._context, args.clientid)  # it may be on the disk, and not discovered yet
        was_connected = self._channels.find(args.clientid) is not None
        self._context.begin_turn()
        if not kick(self._context, args.clientid):
            raise no_client(args.clientid)
        return proto.Kicked(args.clientid, was_connected)

    def _rows(self, wanted: WantedClients, limit: int) -> Iterator[proto.ClientRow | None]:
        count = 0
        for entry in every_session(self._context):
            if not wanted.matches(self._context, entry):
                yield None
                continue
            yield self._row(entry)
            count += 1
            if count == limit:
                return

    def _row(self, entry: Listed) -> proto.ClientRow | None:
        behind_us = behind_since_us(self._context.sessions, entry)
        if isinstance(entry, Asleep):
            return proto.ClientRow(
                entry.clientid,
                expiry_interval=entry.expiry_s,
                disconnected_at=entry.left_us,
                durable=True,
                asleep=True,
                behind_since=behind_us or None,
            )
        if not isinstance(entry, Session):
            return None
        session = entry
        channel = self._channels.find(session.clientid)
        client = None if channel is None else channel.client_info()
        queue, unreleased = session.queue, session.unreleased
        is_durable = isinstance(session, DurableSession)
        sizes = (
            len(session.subscriptions),
            None if isinstance(session, DurableSession) and session.has_lost else len(session.window.deliveries),
            session.queued_count,
            0 if queue is None else queue.size_bytes,
            session.dropped_count,
            0 if unreleased is None else len(unreleased),
            is_durable,
        )
        if client is None:
            left_us = session.left_us or None
            return proto.ClientRow(
                session.clientid, None, False, "", None, "", "", session.mountpoint, None, None, None,
                session.expiry_interval_s, session.created_at_us, None, left_us, *sizes,
                behind_since=behind_us or None,
            )  # fmt: skip
        peerhost, port = client.peerhost, client.peername.rpartition(":")[2]
        return proto.ClientRow(
            session.clientid, client.username, True, peerhost, int(port) if port.isdigit() else None, client.listener,
            client.zone, client.mountpoint, client.version, client.keepalive_s, client.clean_start,
            session.expiry_interval_s, session.created_at_us, client.connected_at_us, None, *sizes, False,
            *_messages(session.outbox), behind_since=behind_us or None,
        )  # fmt: skip

    def _details(self, session: Session) -> proto.ClientDetails:
        row = self._row(session)
        if row is None:
            raise no_client(session.clientid)
        channel, outbox, sizes = self._channels.find(session.clientid), session.outbox, session.statistics()
        client = None if channel is None else channel.client_info()
        return proto.ClientDetails(
            row,
            sockname="" if client is None else client.sockname,
            common_name=None if client is None else client.common_name,
            subject=None if client is None else client.subject,
            is_superuser=client is not None and client.is_superuser,
            client_attrs={} if client is None else dict(client.client_attrs),
            will_topic=None if client is None else client.will_topic,
            will_is_delayed=self._context.sessions.wills.has_delayed(session.clientid),
            inflight_max=sizes["inflight_max"],
            mqueue_max=sizes["mqueue_max"],
            mqueue_bytes_max=sizes["mqueue_bytes_max"],
            dropped={} if session.drops is None else session.drops.counts(),
            shared_subscriptions_cnt=session.shared_count,
            recv_oct=None if outbox is None else outbox.received_bytes,
            send_oct=None if outbox is None else outbox.sent_bytes,
            unsent_bytes=None if outbox is None else outbox.waiting_bytes,
        )


def _messages(outbox: Outbox | None) -> tuple[int | None, int | None]:
    if outbox is None:
        return None, None
    return (
        outbox.received_qos0 + outbox.received_qos1 + outbox.received_qos2,
        outbox.sent_qos0 + outbox.sent_qos1 + outbox.sent_qos2,
    )


def _wanted(args: proto.ClientsWanted) -> WantedClients:
    return wanted_clients(
        ClientsFilter(
            usernames=None if args.username is None else [args.username],
            clientid_like=args.clientid_like,
            username_like=args.username_like,
            ip=args.ip,
            listener=args.listener,
            zone=args.zone,
            connected=args.connected,
            min_queue=args.min_queue,
            min_dropped=args.min_dropped,
        )
    )


def _length(row: proto.ClientRow) -> int:
    return len(row.clientid) + len(row.username or "") + len(row.mountpoint)
