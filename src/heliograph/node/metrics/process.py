"""The metrics of the process: memory, listeners, the loop, the pipeline beside it."""

from typing import Final

from heliograph.observe.metric import Metric, counter, gauge, histogram

_LISTENERS: Final = (
    (gauge, "current_connections", "Connections of a listener, those in their handshakes included."),
    (counter, "refused_connections", "Connections beyond `max_connections`."),
    (counter, "denied_connections", "Connections that `access_rules` refused."),
    (counter, "handshake_failures", "Connections whose TLS, WebSocket or PROXY protocol was broken."),
    (counter, "handshake_timeouts", "Connections whose handshakes took too long."),
    (counter, "send_timeouts", "Connections that did not read what they were sent."),
    (counter, "accept_pauses", "Times that it held back for `max_conn_rate`."),
    (counter, "accept_failures", "Times that a connection could not be accepted."),
    (
        gauge,
        "certificate_expires_at",
        "When the certificate of a listener expires, in seconds since the epoch; 0 if that cannot be read.",
    ),
    (gauge, "out_of_files", "1 while connections wait for open files."),
)

LISTENERS: Final[tuple[Metric, ...]] = (
    *(
        declare(f"listeners.{name}", meaning, "", ("kind", "listener"), f"listeners.{{kind}}.{{listener}}.{name}")
        for declare, name, meaning in _LISTENERS
    ),
    counter("client_attrs.made", "Client attributes that were made."),
    counter("client_attrs.empty", "Expressions of attributes that gave nothing."),
    counter("client_attrs.failed", "Expressions of attributes that failed."),
)
LOOP: Final[tuple[Metric, ...]] = (
    gauge("loop.last_lag_s", "How late the last tick came: how long others kept the event loop busy then.", "seconds"),
    gauge("loop.longest_lag_s", "The latest that a tick came since the start.", "seconds"),
    histogram("loop.lag", "Ticks by how late they came at most.", "seconds"),
)
TURNS: Final[tuple[Metric, ...]] = (
    histogram("loop.turn", "Turns of the event loop by how long they took at most; ten a second.", "seconds"),
)
MEMORY: Final[tuple[Metric, ...]] = (
    gauge("memory.used", "Resident memory of the process.", "bytes"),
    gauge("memory.limit", "`node.memory_limit`; 0 for none.", "bytes"),
    gauge("memory.stage", "The stage of the memory contract; 0 while memory is not short."),
    gauge("memory.held", "What is held, by owner (docs/memory.md); `queues` is what waits for clients.", "bytes",
          ("owner",)),
    counter("memory.caches_shrunk", "Times that caches were made small."),
    counter("memory.qos0_shed", "QoS 0 messages that were dropped since memory was short."),
    counter("memory.growth_refused", "Sessions, subscriptions and messages that were refused since memory was short."),
    counter("memory.connections_closed", "Connections that were closed since memory was short."),
    counter("memory.connections_refused", "Connections that were refused since memory was short."),
)  # fmt: skip
OVERLOAD: Final[tuple[Metric, ...]] = (
    gauge("overload_protection.stage", "How much is shed under overload (docs/overload.md); 0 while there is none."),
    counter("overload_protection.delay.ok", "CONNECTs that waited until the node was not overloaded any more."),
    counter("overload_protection.delay.timeout", "CONNECTs that waited, and the node was still overloaded then."),
    counter("overload_protection.hibernation", "Times that an idle session stayed in memory: the node was overloaded."),
    counter("overload_protection.gc", "Full garbage collections that were put off."),
    counter("overload_protection.new_conn", "CONNECTs that were refused: the node was overloaded."),
    counter("overload_protection.qos0", "QoS 0 messages to slow readers that were dropped: the node was overloaded."),
    counter("overload_protection.requests", "Requests of operators that were refused: the node was overloaded."),
)
PIPELINE: Final[tuple[Metric, ...]] = (
    gauge("pipeline.running", "1 while the pipeline runs."),
    counter("pipeline.restarts", "Times that it was started again."),
    counter("pipeline.failures", "Times that it ended by itself."),
)
MANAGEMENT: Final[tuple[Metric, ...]] = (
    gauge("management.running", "1 while the process of the HTTP API runs."),
    counter("management.restarts", "Times that it was started again."),
    counter("management.failures", "Times that it ended by itself."),
)
