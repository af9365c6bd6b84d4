"""The parts that a node can have, for tests of what they declare."""

from dataclasses import replace

from heliograph.broker.hooks import Hooks
from heliograph.config.settings import Config
from heliograph.node.options import make_broker
from heliograph.node.parts import make_parts
from heliograph.parts import Part, Parts


def every_part(config: Config) -> list[Part]:
    """The parts of a node that has all that a node can have; none of them is ever started."""
    broker = make_broker(config, Hooks(lambda name, error: None))
    whole = replace(config, pipeline=replace(config.pipeline, enable=True, file="-"))
    return make_parts(whole, broker, lambda: Parts(whole, broker.faults, ()))
