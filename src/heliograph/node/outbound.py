"""Where the node may connect to, as a part of a node: it takes each change of the settings `outbound`."""

import logging

from heliograph.config.settings import Config
from heliograph.node.clock import uptime_us
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample, counter, plain
from heliograph.outbound import Outbound
from heliograph.parts import Change, Part

_log = logging.getLogger(__name__)


class OutboundPart(Part):
    """What opens the connections of the node to other servers; owned by the node. Connections that stand stay."""

    name = "outbound"
    metrics = (counter("outbound.denied", "Connections of the node to other servers that `outbound` denied."),)
    roots = ("outbound",)

    def __init__(self, config: Config) -> None:
        log = BoundedLog(_log, uptime_us)
        self.outbound = Outbound(config.outbound, tell=lambda text: log.warn("%s", text))

    async def check(self, new: Config) -> Change | None:
        return None if new.outbound == self.outbound.config else Change(lambda: self.outbound.use(new.outbound))

    def samples(self) -> list[Sample]:
        return plain({"outbound.denied": self.outbound.denied_count})
