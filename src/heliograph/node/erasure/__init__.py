"""What a node keeps of clients beside its messages, and how it is erased: records, ways, audit log, dead letters.

Nothing here runs in a node: `heliograph erase` uses it on the data directory of a stopped one, and `worker` runs beside
one whose part `node.erasures` erases.
"""
