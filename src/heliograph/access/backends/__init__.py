"""Connections to the servers that know clients and their rights: pools, deadlines, health; answers that are kept."""
