"""Changes of a node's configuration while it runs: planned, made as a whole or not at all, numbered and logged.

What a change asks for is in `edits`, what it would do in `planning`, what is written in `files`; `manager` brings it
about, and `audit` writes down the author of each. How settings are
declared and read is in `config`, and what parts of a node do with another configuration in `parts`.
"""
