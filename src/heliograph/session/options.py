"""The operator's limits that sessions obey, as the hot path wants them: plain numbers."""

from mypy_extensions import i64


class SessionOptions:
    """Limits of every session of a zone; see the `mqtt` section of the configuration.

    Args:
        max_inflight: PUBLISH packets at QoS 1 and 2 that a client may leave unacknowledged.
        max_mqueue_len: Messages that wait while the window is full or the client away; 0 for no limit.
        mqueue_store_qos0: Whether QoS 0 messages wait too.
        max_awaiting_rel: QoS 2 packet identifiers that a client may leave without PUBREL; 0 for no limit.
        await_rel_timeout_us: After how long such an identifier may be given up for another.
        upgrade_qos: Deliver at the subscription's QoS even if the message was published at a lower one.
    """

    def __init__(
        self,
        max_inflight: i64 = 32,
        max_mqueue_len: i64 = 1000,
        mqueue_store_qos0: bool = True,
        max_awaiting_rel: i64 = 100,
        await_rel_timeout_us: i64 = 300_000_000,
        upgrade_qos: bool = False,
    ) -> None:
        self.max_inflight = max_inflight
        self.max_mqueue_len = max_mqueue_len
        self.mqueue_store_qos0 = mqueue_store_qos0
        self.max_awaiting_rel = max_awaiting_rel
        self.await_rel_timeout_us = await_rel_timeout_us
        self.upgrade_qos = upgrade_qos
