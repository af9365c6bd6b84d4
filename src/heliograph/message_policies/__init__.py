"""Schema validation and message transformation, before rules, storage and subscribers get a message.

`SchemaValidation` refuses messages that do not look as they must, `MessageTransformation` changes messages. Both are
callbacks of `message.publish`, behind authorization and before delayed publishing, rules, retainer and subscribers;
`heliograph.message_policies.parts` joins them to a node.
"""

from heliograph.message_policies.errors import MessagePolicyError
from heliograph.message_policies.transformation import MessageTransformation
from heliograph.message_policies.validation import SchemaValidation

__all__ = ["MessagePolicyError", "MessageTransformation", "SchemaValidation"]
