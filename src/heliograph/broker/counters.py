"""The counters of a node's hot path: plain 64-bit numbers that the metrics read.

Each packet and message counts once, in the branch that handles it; sums are made on request.
"""

from mypy_extensions import i64


class Counters:
    """What a node did since it started. Names follow EMQX's metrics."""

    def __init__(self) -> None:
        self.bytes_received: i64 = 0
        self.bytes_sent: i64 = 0
        # packets from clients
        self.connect_received: i64 = 0
        self.puback_received: i64 = 0
        self.pubrec_received: i64 = 0
        self.pubrel_received: i64 = 0
        self.pubcomp_received: i64 = 0
        self.subscribe_received: i64 = 0
        self.unsubscribe_received: i64 = 0
        self.pingreq_received: i64 = 0
        self.disconnect_received: i64 = 0
        self.auth_received: i64 = 0
        self.puback_missed: i64 = 0  # acknowledgements under identifiers that nothing was on its way under
        self.pubrec_missed: i64 = 0
        self.pubrel_missed: i64 = 0
        self.pubcomp_missed: i64 = 0
        self.puback_inuse: i64 = 0  # those that are not the ones that what is under their identifiers waits for
        self.pubrec_inuse: i64 = 0
        self.pubcomp_inuse: i64 = 0
        self.publish_inuse: i64 = 0  # QoS 2 messages under identifiers that wait for PUBREL
        self.subscribe_error: i64 = 0  # filters that were refused for another reason than missing rights
        self.unsubscribe_error: i64 = 0  # filters that are not valid
        # packets to clients
        self.connack_sent: i64 = 0
        self.connack_error: i64 = 0
        self.connack_auth_error: i64 = 0
        self.puback_sent: i64 = 0
        self.pubrec_sent: i64 = 0
        self.pubrel_sent: i64 = 0
        self.pubcomp_sent: i64 = 0
        self.suback_sent: i64 = 0
        self.unsuback_sent: i64 = 0
        self.pingresp_sent: i64 = 0
        self.disconnect_sent: i64 = 0
        self.auth_sent: i64 = 0
        # messages
        self.qos0_received: i64 = 0
        self.qos1_received: i64 = 0
        self.qos2_received: i64 = 0
        self.qos0_sent: i64 = 0
        self.qos1_sent: i64 = 0
        self.qos2_sent: i64 = 0
        self.messages_acked: i64 = 0
        self.messages_refused: i64 = 0  # by storage
        self.messages_not_authorized: i64 = 0
        self.messages_dropped_no_subscribers: i64 = 0
        self.messages_dropped_quota: i64 = 0
        self.messages_dropped_unreleased: i64 = 0  # QoS 2 messages whose PUBREL was no longer waited for
        self.messages_published: i64 = 0  # by clients and by the broker itself
        self.subscriptions_not_authorized: i64 = 0
        self.subscriptions_withdrawn: i64 = 0  # that clients had and may not have any more
        self.delivery_dropped_queue_full: i64 = 0
        self.delivery_dropped_qos0: i64 = 0
        self.delivery_dropped_no_local: i64 = 0
        self.delivery_dropped_expired: i64 = 0
        self.delivery_dropped_too_large: i64 = 0
        self.delivery_dropped_not_authorized: i64 = 0
        # what clients may do: decisions that were made, and those that connections remembered
        self.authz_allowed: i64 = 0
        self.authz_denied: i64 = 0
        self.authz_matched_allow: i64 = 0
        self.authz_matched_deny: i64 = 0
        self.authz_no_match: i64 = 0
        self.authz_superuser: i64 = 0
        self.authz_cached_allowed: i64 = 0
        self.authz_cached_denied: i64 = 0
        # connections
        self.connections_accepted: i64 = 0
        self.connections_closed: i64 = 0
        self.connections_idle: i64 = 0  # closed because no CONNECT came in time
        self.connections_cut: i64 = 0  # because too much waited for a peer that did not read
        self.protocol_errors: i64 = 0
        self.authentications_failed: i64 = 0
        self.authentications: i64 = 0  # that were begun
        self.authentications_succeeded: i64 = 0
        self.authentications_anonymous: i64 = 0  # of these, those that no authenticator checked
        self.sessions_refused: i64 = 0  # because as many as are allowed have no connection
        # clients and sessions, each counted where its hook point runs
        self.clients_connected: i64 = 0
        self.clients_disconnected: i64 = 0
        self.disconnects: dict[tuple[str, str], int] = {}  # the same by listener and reason
        self.sessions_created: i64 = 0
        self.sessions_resumed: i64 = 0
        self.sessions_taken_over: i64 = 0
        self.sessions_discarded: i64 = 0
        self.sessions_terminated: i64 = 0

    def count_disconnect(self, listener: str, reason: str) -> None:
        self.clients_disconnected += 1
        key = (listener, reason)
        self.disconnects[key] = self.disconnects.get(key, 0) + 1

    @property
    def messages_received(self) -> i64:
        return self.qos0_received + self.qos1_received + self.qos2_received

    @property
    def messages_sent(self) -> i64:
        return self.qos0_sent + self.qos1_sent + self.qos2_sent

    @property
    def packets_received(self) -> i64:
        return (
            self.messages_received
            + self.connect_received
            + self.puback_received
            + self.pubrec_received
            + self.pubrel_received
            + self.pubcomp_received
            + self.subscribe_received
            + self.unsubscribe_received
            + self.pingreq_received
            + self.disconnect_received
            + self.auth_received
        )

    @property
    def packets_sent(self) -> i64:
        return (
            self.messages_sent
            + self.connack_sent
            + self.puback_sent
            + self.pubrec_sent
            + self.pubrel_sent
            + self.pubcomp_sent
            + self.suback_sent
            + self.unsuback_sent
            + self.pingresp_sent
            + self.disconnect_sent
            + self.auth_sent
        )

    @property
    def delivery_dropped(self) -> i64:
        """Messages that one of their receivers did not get."""
        return (
            self.delivery_dropped_queue_full
            + self.delivery_dropped_qos0
            + self.delivery_dropped_no_local
            + self.delivery_dropped_expired
            + self.delivery_dropped_too_large
            + self.delivery_dropped_not_authorized
        )

    def snapshot(self) -> dict[str, int]:
        return {
            "bytes.received": self.bytes_received,
            "bytes.sent": self.bytes_sent,
            "packets.received": self.packets_received,
            "packets.sent": self.packets_sent,
            "packets.connect.received": self.connect_received,
            "packets.connack.sent": self.connack_sent,
            "packets.connack.error": self.connack_error,
            "packets.connack.auth_error": self.connack_auth_error,
            "packets.publish.received": self.messages_received,
            "packets.publish.sent": self.messages_sent,
            "packets.publish.error": self.messages_refused,
            "packets.publish.auth_error": self.messages_not_authorized,
            "packets.publish.dropped": self.messages_dropped_quota,
            "packets.puback.received": self.puback_received,
            "packets.puback.sent": self.puback_sent,
            "packets.pubrec.received": self.pubrec_received,
            "packets.pubrec.sent": self.pubrec_sent,
            "packets.pubrel.received": self.pubrel_received,
            "packets.pubrel.sent": self.pubrel_sent,
            "packets.pubcomp.received": self.pubcomp_received,
            "packets.pubcomp.sent": self.pubcomp_sent,
            "packets.publish.inuse": self.publish_inuse,
            "packets.puback.missed": self.puback_missed,
            "packets.puback.inuse": self.puback_inuse,
            "packets.pubrec.missed": self.pubrec_missed,
            "packets.pubrec.inuse": self.pubrec_inuse,
            "packets.pubrel.missed": self.pubrel_missed,
            "packets.pubcomp.missed": self.pubcomp_missed,
            "packets.pubcomp.inuse": self.pubcomp_inuse,
            "packets.subscribe.error": self.subscribe_error,
            "packets.unsubscribe.error": self.unsubscribe_error,
            "packets.subscribe.received": self.subscribe_received,
            "packets.subscribe.auth_error": self.subscriptions_not_authorized,
            "subscriptions.withdrawn": self.subscriptions_withdrawn,
            "packets.suback.sent": self.suback_sent,
            "packets.unsubscribe.received": self.unsubscribe_received,
            "packets.unsuback.sent": self.unsuback_sent,
            "packets.pingreq.received": self.pingreq_received,
            "packets.pingresp.sent": self.pingresp_sent,
            "packets.disconnect.received": self.disconnect_received,
            "packets.disconnect.sent": self.disconnect_sent,
            "packets.auth.received": self.auth_received,
            "packets.auth.sent": self.auth_sent,
            "packets.protocol_errors": self.protocol_errors,
            "sessions.refused": self.sessions_refused,
            "client.connected": self.clients_connected,
            "client.disconnected": self.clients_disconnected,
            "session.created": self.sessions_created,
            "session.resumed": self.sessions_resumed,
            "session.takenover": self.sessions_taken_over,
            "session.discarded": self.sessions_discarded,
            "session.terminated": self.sessions_terminated,
            "messages.received": self.messages_received,
            "messages.sent": self.messages_sent,
            "messages.qos0.received": self.qos0_received,
            "messages.qos0.sent": self.qos0_sent,
            "messages.qos1.received": self.qos1_received,
            "messages.qos1.sent": self.qos1_sent,
            "messages.qos2.received": self.qos2_received,
            "messages.qos2.sent": self.qos2_sent,
            "messages.publish": self.messages_published,
            "messages.delivered": self.messages_sent,
            "messages.acked": self.messages_acked,
            "messages.refused": self.messages_refused,
            "messages.dropped": self.messages_dropped_no_subscribers,
            "messages.dropped.await_pubrel_timeout": self.messages_dropped_unreleased,
            "messages.dropped.no_subscribers": self.messages_dropped_no_subscribers,
            "delivery.dropped": self.delivery_dropped,
            "delivery.dropped.queue_full": self.delivery_dropped_queue_full,
            "delivery.dropped.qos0_msg": self.delivery_dropped_qos0,
            "delivery.dropped.no_local": self.delivery_dropped_no_local,
            "delivery.dropped.expired": self.delivery_dropped_expired,
            "delivery.dropped.too_large": self.delivery_dropped_too_large,
            "delivery.dropped.not_authorized": self.delivery_dropped_not_authorized,
            "client.authenticate": self.authentications,
            "client.auth.anonymous": self.authentications_anonymous,
            "authentication.success": self.authentications_succeeded,
            "authentication.failure": self.authentications_failed,
            "client.authorize": self.authz_allowed + self.authz_denied,
            "authorization.allow": self.authz_allowed + self.authz_cached_allowed,
            "authorization.deny": self.authz_denied + self.authz_cached_denied,
            "authorization.matched_allow": self.authz_matched_allow,
            "authorization.matched_deny": self.authz_matched_deny,
            "authorization.nomatch": self.authz_no_match,
            "authorization.superuser": self.authz_superuser,
            "authorization.cache_hit": self.authz_cached_allowed + self.authz_cached_denied,
            "authorization.cache_miss": self.authz_allowed + self.authz_denied,
            "connections.accepted": self.connections_accepted,
            "connections.closed": self.connections_closed,
            "connections.idle_timeout": self.connections_idle,
            "connections.force_shutdown": self.connections_cut,
        }
