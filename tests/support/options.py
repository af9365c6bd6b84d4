"""The options of a node with default settings: in tests, the kernel has the limits of a node."""

from typing import Final

from heliograph.config.settings import DEFAULT_ZONE, Config
from heliograph.node.options import channel_options, retainer_options

CHANNEL: Final = channel_options(Config(), DEFAULT_ZONE)
LISTENER: Final = CHANNEL.listener
SESSION: Final = CHANNEL.session
RETAINER: Final = retainer_options(Config().retainer)
