"""Heliograph: an MQTT platform whose messages are replayable streams for Apache Spark."""

import os
from typing import Final

__version__: Final = "0.1.0"

if os.environ.get("HELIOGRAPH_PURE") == "1":
    from heliograph._pure import prefer_sources

    prefer_sources()
