"""The operator's limits that sessions obey, as the hot path wants them: plain numbers.

A record never changes: a session gets another one when the settings do.
"""

from dataclasses import dataclass, field

from mypy_extensions import i64


@dataclass(frozen=True)
class SessionOptions:
    """Limits of every session of a zone; see the `mqtt` section of the configuration.

    Attributes:
        zone: The zone.
        max_inflight: PUBLISH packets at QoS 1 and 2 that a client may leave unacknowledged.
        retry_interval_us: After how long an MQTT 3 client is sent an unacknowledged message again while it stays
            connected; 0 for never. MQTT 5 forbids it.
        max_mqueue_len: Messages that wait while the window is full or the client away; 0 for no limit.
        max_mqueue_bytes: Bytes that these messages may have, with what each costs beside its packet; 0 for no limit.
        mqueue_store_qos0: Whether QoS 0 messages wait too.
        mqueue_priorities: Priorities (1 to 255) of topics, higher ones first; empty for one queue in order.
        mqueue_default_priority: The priority of every other topic.
        max_awaiting_rel: QoS 2 packet identifiers that a client may leave without PUBREL; 0 for no limit.
        await_rel_timeout_us: After how long such an identifier may be given up for another.
        upgrade_qos: Deliver at the subscription's QoS even if the message was published at a lower one.
        ignore_loop_deliver: Do not deliver an MQTT 3 client's own messages to it, as no-local does in MQTT 5.
        durable: Sessions that do not end with their connections survive the broker, where it keeps any.
    """

    zone: str = "default"
    max_inflight: i64 = 32
    retry_interval_us: i64 = 0
    max_mqueue_len: i64 = 1000
    mqueue_store_qos0: bool = True
    mqueue_priorities: dict[str, int] = field(default_factory=dict)
    mqueue_default_priority: i64 = 0
    max_awaiting_rel: i64 = 100
    await_rel_timeout_us: i64 = 300_000_000
    upgrade_qos: bool = False
    ignore_loop_deliver: bool = False
    durable: bool = True
    max_mqueue_bytes: i64 = 8_388_608
