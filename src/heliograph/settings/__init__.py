"""How a setting is declared, read and described, for nodes, pipelines and data sources.

A group of settings is a frozen dataclass whose fields are declared by the functions of `fields`; `kinds` has what a
value may be, `reading` reads a group from HOCON. What settings there are
is in the packages that use them.
"""
