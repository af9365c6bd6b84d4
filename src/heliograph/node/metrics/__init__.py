"""The metrics of a node by owner: what each number that its parts report is.

A part with few metrics declares them in its own class (`Part.metrics`).
"""
