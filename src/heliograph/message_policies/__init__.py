"""Schema validation and message transformation, before rules, storage and subscribers get a message.

`validation.SchemaValidation` refuses messages that do not look as they must, `transformation.MessageTransformation`
changes messages. Both are callbacks of `message.publish`, behind authorization and before delayed publishing, rules,
retainer and subscribers; `heliograph.message_policies.parts` joins them to a node.
"""
