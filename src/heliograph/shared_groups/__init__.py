"""Durable shared groups: stored messages, each handed to one member of a group; progress outlives members and nodes."""
