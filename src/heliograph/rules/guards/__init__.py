"""What stands between a publisher and everybody else: schema validation and message transformation.

`SchemaValidation` refuses messages that do not look as they must, `MessageTransformation` changes messages. Both are
callbacks of `message.publish`, behind authorization and before delayed publishing, rules, retainer and subscribers;
`heliograph.node.guards` joins them to a node.
"""

from heliograph.rules.guards.errors import GuardError
from heliograph.rules.guards.transformation import MessageTransformation
from heliograph.rules.guards.validation import SchemaValidation

__all__ = ["GuardError", "MessageTransformation", "SchemaValidation"]
