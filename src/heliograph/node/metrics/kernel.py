"""The metrics of the kernel: bytes, packets, messages, connections, sessions, routes, hooks, faults, time."""

from typing import Final

from heliograph.observe.metric import Metric, counter, gauge, histogram

_PACKETS: Final = (
    ("connect", "CONNECT", "r"),
    ("connack", "CONNACK", "s"),
    ("publish", "PUBLISH", "rs"),
    ("puback", "PUBACK", "rs"),
    ("pubrec", "PUBREC", "rs"),
    ("pubrel", "PUBREL", "rs"),
    ("pubcomp", "PUBCOMP", "rs"),
    ("subscribe", "SUBSCRIBE", "r"),
    ("suback", "SUBACK", "s"),
    ("unsubscribe", "UNSUBSCRIBE", "r"),
    ("unsuback", "UNSUBACK", "s"),
    ("pingreq", "PINGREQ", "r"),
    ("pingresp", "PINGRESP", "s"),
    ("disconnect", "DISCONNECT", "rs"),
    ("auth", "AUTH", "rs"),
)
_RECEIVED: Final = [
    counter(f"packets.{name}.received", f"{kind} packets from clients.") for name, kind, ways in _PACKETS if "r" in ways
]
_SENT: Final = [
    counter(f"packets.{name}.sent", f"{kind} packets to clients.") for name, kind, ways in _PACKETS if "s" in ways
]
_QOS: Final = [
    metric
    for qos in range(3)
    for metric in (
        counter(f"messages.qos{qos}.received", f"PUBLISH packets of QoS {qos} from clients."),
        counter(f"messages.qos{qos}.sent", f"PUBLISH packets of QoS {qos} to clients, repetitions included."),
    )
]

_LIFE: Final = (
    ("client.connected", "Clients that were connected."),
    ("client.disconnected", "Clients that were connected and no longer are."),
    ("session.created", "Sessions that began."),
    ("session.resumed", "Sessions that went on with a new connection."),
    ("session.takenover", "Connections that lost their session to another one."),
    ("session.discarded", "Sessions that ended since their clients wanted new ones."),
    ("session.terminated", "Sessions that ended."),
)

KERNEL: Final[tuple[Metric, ...]] = (
    *(counter(name, meaning) for name, meaning in _LIFE),
    counter("bytes.received", "Bytes from clients.", "bytes"),
    counter("bytes.sent", "Bytes to clients.", "bytes"),
    counter("packets.received", "Packets from clients."),
    counter("packets.sent", "Packets to clients."),
    *_RECEIVED,
    *_SENT,
    counter("packets.connack.error", "CONNACK packets that refused a client."),
    counter("packets.connack.auth_error", "Clients that were not authenticated."),
    counter("packets.publish.error", "PUBLISH packets that storage refused."),
    counter("packets.publish.auth_error", "PUBLISH packets that their clients were not allowed to send."),
    counter("packets.publish.dropped", "PUBLISH packets that found no room for another QoS 2 exchange."),
    counter("packets.publish.inuse", "QoS 2 messages whose identifier is that of one whose PUBREL is awaited."),
    counter("packets.subscribe.error", "Filters that were refused for another reason than missing rights."),
    counter("packets.unsubscribe.error", "Filters to unsubscribe from that are not valid."),
    *(counter(f"packets.{name}.missed", f"{name.upper()} packets under an identifier that nothing is on its way under.")
      for name in ("puback", "pubrec", "pubrel", "pubcomp")),
    *(counter(f"packets.{name}.inuse", f"{name.upper()} packets that are not what the message under their identifier "
              "waits for.")
      for name in ("puback", "pubrec", "pubcomp")),
    counter("packets.subscribe.auth_error", "Filters that their clients were not allowed to subscribe to."),
    counter("subscriptions.withdrawn", "Subscriptions that ended since their clients may not have them any more."),
    counter("packets.protocol_errors", "Connections that ended because a client broke the protocol."),
    counter("messages.received", "PUBLISH packets from clients."),
    counter("messages.sent", "PUBLISH packets to clients, repetitions included."),
    *_QOS,
    counter("messages.publish", "Messages that were published, those of the broker itself included."),
    counter("messages.delivered", "Messages that were sent to subscribers."),
    counter("messages.acked", "Messages that subscribers acknowledged."),
    counter("messages.refused", "Messages that storage refused."),
    counter("messages.dropped", "Messages that no client got."),
    counter("messages.dropped.await_pubrel_timeout",
            "QoS 2 messages whose PUBREL did not come in `mqtt.await_rel_timeout`, so that others took their places."),
    counter("messages.dropped.no_subscribers", "Messages without a subscriber; stored ones while no session is away."),
    counter("delivery.dropped", "Messages that one of their subscribers did not get, for any reason."),
    counter("delivery.dropped.queue_full", "Of these, those whose subscriber's queue was full."),
    counter("delivery.dropped.qos0_msg", "Of these, QoS 0 messages that their subscriber's queue does not keep."),
    counter("delivery.dropped.no_local", "Of these, those whose subscriber published them and wants none of its own."),
    counter("delivery.dropped.expired", "Of these, those that expired while they waited."),
    counter("delivery.dropped.too_large", "Of these, those larger than their subscriber takes."),
    counter("delivery.dropped.not_authorized", "Of these, those that their subscriber may not have."),
    counter("client.authenticate", "Authentications that were begun."),
    counter("client.auth.anonymous", "Clients that were let in and that no authenticator checked."),
    counter("authentication.success", "Authentications that ended well, those of anonymous clients included."),
    counter("authentication.failure", "Authentications that refused the client."),
    counter("client.authorize", "Decisions that were made about what clients may do."),
    counter("authorization.allow", "Publishes and subscriptions that were allowed, remembered decisions included."),
    counter("authorization.deny", "Publishes and subscriptions that were denied, remembered decisions included."),
    counter("authorization.matched_allow", "Decisions of a source that allowed."),
    counter("authorization.matched_deny", "Decisions of a source that denied."),
    counter("authorization.nomatch", "Decisions of `authorization.no_match`."),
    counter("authorization.superuser", "Decisions about superusers."),
    counter("authorization.cache_hit", "Decisions that the connection remembered."),
    counter("authorization.cache_miss", "Decisions that it did not remember."),
    histogram("latency.delivery", "From the turn that reads a PUBLISH until what the turn made is written to sockets; "
              "one message of 64.", "seconds"),
    histogram("latency.queue", "From a PUBLISH until it left the queue of a receiver; one message of 16 that waited.",
              "seconds"),
    histogram("latency.authentication", "From CONNECT until its authentication was decided.", "seconds"),
    histogram("latency.authorization", "Decisions about clients' rights that had to be waited for.", "seconds"),
    counter("client.disconnected.reason", "Clients that are no longer connected, by listener and reason.", "",
            ("listener_type", "listener_name", "reason")),
    counter("connections.accepted", "Connections that were accepted."),
    counter("connections.closed", "Connections that ended."),
    counter("connections.idle_timeout", "Connections that were closed because no CONNECT came in time."),
    counter("connections.force_shutdown", "Connections that were cut because too much waited for their peer."),
    gauge("connections.open", "Connections, those included that have not sent CONNECT."),
    gauge("live_connections.count", "Connections whose client is connected."),
    gauge("sessions.count", "Sessions, with and without a connection."),
    gauge("sessions.away", "Sessions without a connection, in memory."),
    counter("sessions.refused", "Sessions that were refused: as many as are allowed have no connection."),
    counter("wills.refused", "Wills that were refused when they were to be published."),
    counter("wills.lost", "Wills that were lost because too many waited to be published again."),
    gauge("topics.count", "Topic filters with a subscription."),
    gauge("subscriptions.count", "Subscriptions."),
    gauge("subscriptions.parked", "Subscriptions of sessions that are away."),
    gauge("subscriptions.shared.count", "Shared subscriptions."),
    gauge("routes.cached", "Topics whose subscribers are remembered."),
    counter("routes.cache_misses", "Topics whose subscribers had to be looked for."),
    counter("routes.cache_resets", "Times that the memory of topics was full and was cleared."),
    gauge("shared_groups.count", "Shared groups with members."),
    counter("shared_groups.dropped", "Messages for which a shared group had no member."),
    counter("shared_groups.publishers_forgotten", "Publishers whose chosen member was forgotten to bound memory."),
    gauge("fanouts.count", "Messages on their way to very many subscriptions."),
    counter("fanouts.spread", "Messages that were spread over more turns than one."),
    gauge("turns.waiting", "Connections that wait for their turn."),
    gauge("turns.longest_work", "The most that one turn did, in deliveries."),
    gauge("turns.longest_us", "The longest turn that channels shared.", "microseconds"),
    counter("faults.contained", "Faults of the broker's own code that were contained, at all boundaries."),
    counter("faults.contained.at", "The same at one boundary.", "", ("boundary",), "faults.contained.{boundary}"),
    counter("hooks.failed", "Callbacks that raised, by hook point.", "", ("point",)),
    counter("clock.jumps.ahead", "Times that the wall clock jumped ahead."),
    counter("clock.jumps.back", "Times that the wall clock was set back."),
    counter("clock.jumps.followed", "Jumps ahead that the node's time followed."),
    gauge("clock.error_s", "How far the wall clock is ahead of the node's time.", "seconds"),
    counter("system_messages.invalid", "Messages of the broker's own whose topic nothing can be published to."),
    counter("system_messages.published", "Messages of the broker's own that were published."),
    gauge("system_messages.waiting", "Messages of the broker's own that wait to be published."),
    counter("system_messages.dropped", "Messages of the broker's own that found no room to wait."),
    gauge("alarms.active", "Alarms that go on."),
    gauge("alarms.by_severity", "The same by severity: `critical` if they degrade the node, or `warning`.", "",
          ("severity",)),
    counter("alarms.dropped", "Alarms that found no room."),
)  # fmt: skip
