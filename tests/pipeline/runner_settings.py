"""Settings of an action runner with one action, `web`, which posts each row to a server."""

import json
from pathlib import Path

from heliograph.pipeline.runner.settings import RunnerSettings, read_settings


def web_settings(directory: Path, url: str, endpoint: str = "127.0.0.1:1") -> RunnerSettings:
    """The settings as a node writes them, with all places below a directory.

    Args:
        endpoint: HOST:PORT of the storage reader.
    """
    sink = {"type": "http", "url": url, "body": "${payload}", "batch_rows": 1, "retry": {"attempts": 1}}
    action = {"topic": "$pipeline/http:web/+", "sink": sink, "has_text_rows": False}
    settings = {
        "checkpoint": str(directory / "checkpoint"),
        "output": str(directory / "output"),
        "endpoint": endpoint,
        "mqtt": "127.0.0.1:1",
        "start": "earliest",
        "token": None,
        "tls_ca": None,
        "outbound": {},
        "actions": {"web": {**action, "batch_rows": 100, "batch_bytes": 1 << 20}},
    }
    file = directory / "settings.json"
    file.write_text(json.dumps(settings))
    return read_settings(file)
