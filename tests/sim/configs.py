"""What simulated brokers are started with."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

from heliograph.config.loading import load_config
from heliograph.config.settings import Config


@cache
def base_config() -> Config:
    """A node that takes nothing from the machine but what is simulated: no listeners, no reader process."""
    return load_config(
        overrides={
            "listeners.tcp.default.enable": "false",
            "listeners.ssl.default.enable": "false",
            "listeners.ws.default.enable": "false",
            "listeners.wss.default.enable": "false",
            "durable_storage.flight.enable": "false",
            "durable_sessions.enable": "true",
            "node.number": "1",
        }
    )


def random_config(chance: random.Random, data_dir: Path) -> Config:
    """Such a node with limits and thresholds by chance, most of them low.

    Args:
        chance: What decides.
        data_dir: Where its lock is; its data are on the simulated disk.
    """
    base = base_config()
    layout = replace(base.durable_storage.messages.layout, wildcard_thresholds=chance.choice(((100, 10), (2, 1), (1,))))
    messages = replace(base.durable_storage.messages, layout=layout, n_shards=chance.choice((1, 1, 3)))
    return replace(
        base,
        node=replace(base.node, data_dir=str(data_dir)),
        mqtt=replace(
            base.mqtt,
            max_inflight=chance.choice((1, 3, 32)),
            max_mqueue_len=chance.choice((2, 1000)),
            max_awaiting_rel=0,
        ),
        retainer=replace(
            base.retainer,
            backend=replace(base.retainer.backend, storage_type=chance.choice(("ram", "disc", "disc"))),
        ),
        durable_storage=replace(base.durable_storage, messages=messages),
        durable_sessions=replace(base.durable_sessions, batch_size=chance.choice((3, 512))),
    )
