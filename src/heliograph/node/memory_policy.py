"""Decides what to do as memory fills: numbers in, a stage and names out. `memory` performs it.

The stages add up: caches shrink; QoS 0 messages are not queued; the clients that hold most get nothing;
connections that buffer most are closed; new connections are refused.
"""

import heapq
from collections.abc import Mapping
from typing import Final

# The stages, by number; 0 is no stage.
CACHES: Final = 1
QOS0: Final = 2
GROWTH: Final = 3
CONNECTIONS: Final = 4
CONNECTS: Final = 5
NAMES: Final = ("", "memory_caches", "memory_qos0", "memory_growth", "memory_connections", "memory_connects")

# Parts of the limit, in percent, at which a stage begins. It ends 5 percent below.
_BEGINS: Final = (0, 70, 78, 84, 90, 95)
_HYSTERESIS: Final = 5

_HEAVY_MAX: Final = 1000
_HEAVY_BYTES_MIN: Final = 65_536
_HEAVY_PART: Final = 200  # a client is heavy that holds more than this part of what all hold together
_CLOSED_BYTES_MIN: Final = 65_536
_CLOSED_MAX: Final = 256


def stage_of(used: int, limit: int, before: int) -> int:
    """The stage for bytes that are used; `before` is the stage so far."""
    percent = 100 * used // max(1, limit)
    reached = sum(percent >= begins for begins in _BEGINS) - 1
    if reached >= before:
        return reached
    return max(reached, sum(percent + _HYSTERESIS >= begins for begins in _BEGINS[: before + 1]) - 1)


def heavy(holdings: Mapping[str, int]) -> dict[str, int]:
    least = max(_HEAVY_BYTES_MIN, sum(holdings.values()) // _HEAVY_PART)
    most = heapq.nlargest(_HEAVY_MAX, holdings.items(), key=lambda holding: holding[1])
    return {clientid: size for clientid, size in most if size >= least}


def to_close(buffers: Mapping[int, int], used: int, limit: int) -> list[int]:
    """Those first that buffer most, until memory would be where growth is refused."""
    excess = used - limit * _BEGINS[GROWTH] // 100
    closed: list[int] = []
    for number in heapq.nlargest(_CLOSED_MAX, buffers, key=lambda number: buffers[number]):
        if excess <= 0 or buffers[number] < _CLOSED_BYTES_MIN:
            break
        closed.append(number)
        excess -= buffers[number]
    return closed
