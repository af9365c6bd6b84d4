"""Rules in the broker: which of them a message or an event is for, their evaluation, and what is done with their rows.

`engine.RuleEngine` is all of it; `heliograph.node.rules` joins it to a node.
"""
