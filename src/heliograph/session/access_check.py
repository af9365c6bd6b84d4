"""The seam to authorization: what is asked before a wildcard's message is handed out and before a will is published."""

from mypy_extensions import mypyc_attr

from heliograph.broker.message import Message
from heliograph.broker.pending import Pending


@mypyc_attr(allow_interpreted_subclasses=True)
class AccessCheck:
    """Decides for one client; made by its channel if authorization has any callbacks."""

    def may_publish_now(self, message: Message) -> Pending[bool]:
        """Whether the client may publish its will at this moment, whatever was decided before."""
        raise NotImplementedError(type(self).__name__)

    def may_receive(self, topic: str, qos: int) -> bool:
        """Whether the client may have a message of that topic through a subscription of that QoS; must not block."""
        raise NotImplementedError(type(self).__name__)

    def may_come_from(self, message: Message) -> bool:
        """Whether the publisher of a retained message may still publish to its topic."""
        raise NotImplementedError(type(self).__name__)
