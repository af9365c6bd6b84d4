"""The collector: what it is sent, over which protocol, and how often it is tried again."""

import asyncio
import random
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from google.protobuf.message import Message

_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


class Signal(Enum):
    """What a request has: the path that HTTP adds, and the method of gRPC."""

    TRACES = "/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    METRICS = "/v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    LOGS = "/v1/logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


class CollectorError(Exception):
    """The collector has not taken a request.

    Attributes:
        is_passing: Whether it may take the same later.
        pause_s: How long it wants to be left alone; 0 where it does not say.
    """

    def __init__(self, message: str, *, is_passing: bool, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        self.pause_s = pause_s


@dataclass(frozen=True, slots=True)
class Taken:
    """The collector's answer.

    Attributes:
        rejected: How many of the items it did not take.
        why: What it says of them.
    """

    rejected: int = 0
    why: str = ""


class Collector(Protocol):
    """One connection to a collector."""

    async def send(self, signal: Signal, request: Message, timeout_s: float) -> Taken:
        """Send a request.

        Raises:
            CollectorError: It was not taken.
        """

    async def close(self) -> None:
        """End the connection."""


async def send_patiently(collector: Collector, signal: Signal, request: Message, timeout_s: float) -> Taken:
    """Send a request, again after longer and longer pauses while it may succeed, for so long at the most.

    Raises:
        CollectorError: It was not taken.
    """
    loop = asyncio.get_running_loop()
    end_s, pause_s = loop.time() + timeout_s, _FIRST_PAUSE_S
    while True:
        try:
            return await collector.send(signal, request, max(0.05, end_s - loop.time()))
        except CollectorError as error:
            wait_s = max(error.pause_s, pause_s * random.uniform(0.5, 1.0))
            if not error.is_passing or loop.time() + wait_s >= end_s:
                raise
            await asyncio.sleep(wait_s)  # the collector is left alone
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
