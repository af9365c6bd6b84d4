"""The columns of messages, as the SQL of validations reads them."""

from heliograph.broker.message import Message
from heliograph.rules.engine.columns import LiveColumns, NodeFacts


class ColumnsOfMessages:
    """Those of the last message are kept, so that its JSON is decoded once."""

    def __init__(self, node: NodeFacts) -> None:
        self._node = node
        self._columns: LiveColumns | None = None

    def of(self, message: Message) -> LiveColumns:
        columns = self._columns
        if columns is None or columns.message is not message:
            columns = LiveColumns(message, self._node)
            self._columns = columns
        return columns
