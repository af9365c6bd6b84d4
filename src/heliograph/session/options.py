"""The operator's limits that sessions obey, as the hot path wants them: plain numbers.

A record never changes: a session gets another one when the settings do. It has no defaults, which are the settings'; it
is made by `node/options.py`.
"""

from dataclasses import dataclass

from mypy_extensions import i64


@dataclass(frozen=True)
class SessionOptions:
    """Limits of every session of a zone: the settings of `mqtt` of the same names, 0 for no limit, and two others.

    Attributes:
        mqueue_priorities: Priorities (1 to 255) of topics, higher ones first; empty for one queue in order.
        durable: Sessions that do not end with their connections survive the broker, where it keeps any.
    """

    zone: str
    max_inflight: i64
    retry_interval_us: i64
    max_mqueue_len: i64
    max_mqueue_bytes: i64
    mqueue_store_qos0: bool
    mqueue_priorities: dict[str, int]
    mqueue_default_priority: i64
    max_awaiting_rel: i64
    await_rel_timeout_us: i64
    upgrade_qos: bool
    ignore_loop_deliver: bool
    durable: bool
