"""Connectors and actions: what of them is compiled for the pipeline, how targets are reached, and what is counted.

A rule that names an action stores each row for it, as JSON, under `$pipeline/TYPE:NAME/RULE`. The pipeline that a node
runs reads these topics and brings the rows to their targets by its sinks. The part that does this in a node is
`heliograph.node.actions`; the settings are in `heliograph.config.actions`.
"""
