"""What differs between two configurations, and what of it is taken over."""

from dataclasses import replace

from heliograph.config import Config, TcpListener
from heliograph.parts.changes import covers, overlaid


def test_live_settings_are_taken_over_and_the_others_stay() -> None:
    old = Config()
    new = replace(
        old,
        mqtt=replace(old.mqtt, max_inflight=7, max_packet_size=9),
        log=replace(old.log, level="debug"),
        listeners=replace(old.listeners, tcp={"b": TcpListener(), "a": replace(TcpListener(), max_connections=1)}),
    )
    old = replace(old, listeners=replace(old.listeners, tcp={"a": TcpListener(), "c": TcpListener()}))
    asked: list[str] = []

    def is_live(path: str) -> bool:
        asked.append(path)
        return path in ("mqtt.max_inflight", "listeners.tcp.a.max_connections", "listeners.tcp.c")

    merged = overlaid(old, new, is_live)
    assert sorted(asked) == [
        "listeners.tcp.a.max_connections",
        *("listeners.tcp.b", "listeners.tcp.c", "log.level", "mqtt.max_inflight", "mqtt.max_packet_size"),
    ]
    assert (merged.mqtt.max_inflight, merged.mqtt.max_packet_size) == (7, old.mqtt.max_packet_size)
    assert merged.log == old.log
    assert list(merged.listeners.tcp) == ["a"]
    assert merged.listeners.tcp["a"].max_connections == 1
    assert overlaid(old, new, lambda path: True) == new
    assert overlaid(old, old, lambda path: False) is old


def test_a_path_covers_what_is_below_it() -> None:
    assert covers(("mqtt",), "mqtt")
    assert covers(("mqtt",), "mqtt.max_inflight")
    assert not covers(("mqtt.max_inflight",), "mqtt")
    assert not covers(("mqtt",), "mqttx")
    assert covers(("zones.*.mqtt",), "zones.a.mqtt.max_inflight")
    assert not covers(("zones.*.mqtt",), "zones.a")
