"""The rule time machine: a rule run over a stretch of the past, in either engine, without doing anything with its rows.

`running.run_replay` is the whole of it. Its process (`python -m heliograph.pipeline.replay`) is the HTTP API's; the
command `heliograph rule replay` runs it in its own.
"""
