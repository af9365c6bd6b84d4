"""What a configuration file says about retained messages, as the retainer gets it."""

from dataclasses import replace
from pathlib import Path

from heliograph.config.loading import load_config
from heliograph.node.options import retainer_options
from heliograph.retainer.options import RetainerOptions
from support.options import RETAINER


def options_of(directory: Path, settings: str) -> RetainerOptions:
    path = directory / "node.conf"
    path.write_text(f"retainer {{ {settings} }}\n")
    return retainer_options(load_config(path, {}).retainer)


def test_every_setting_reaches_the_retainer(tmp_path: Path) -> None:
    settings = """
        msg_expiry_interval = 1h
        msg_expiry_interval_override = 90s
        max_payload_size = 64KB
        max_publish_rate = "500/s"
        stop_publish_clear_msg = true
        delivery_rate = "1000/1m"
        flow_control { batch_read_number = 10, batch_deliver_number = 20 }
        backend { type = built_in_database, storage_type = ram, max_retained_messages = 7, max_retained_bytes = 3MB }
    """
    expected = replace(
        RETAINER,
        max_retained_messages=7,
        max_retained_bytes=3 * 1024 * 1024,
        max_payload_size=65_536,
        msg_expiry_interval_us=3_600_000_000,
        msg_expiry_interval_override_us=90_000_000,
        max_publish_rate=(500, 1_000_000),
        stop_publish_clear_msg=True,
        batch_read_number=10,
        batch_deliver_number=20,
        delivery_rate=(1000, 60_000_000),
    )
    assert options_of(tmp_path, settings) == expected
