"""Which paths of the configuration belong to a part."""

from heliograph.parts.changes import covers


def test_a_path_covers_what_is_below_it() -> None:
    assert covers(("mqtt",), "mqtt")
    assert covers(("mqtt",), "mqtt.max_inflight")
    assert not covers(("mqtt.max_inflight",), "mqtt")
    assert not covers(("mqtt",), "mqttx")
    assert covers(("zones.*.mqtt",), "zones.a.mqtt.max_inflight")
    assert not covers(("zones.*.mqtt",), "zones.a")
