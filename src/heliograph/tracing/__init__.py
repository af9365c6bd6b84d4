"""Traces: what happens to some clients, topics or addresses, written to files while an operator looks for a fault."""
