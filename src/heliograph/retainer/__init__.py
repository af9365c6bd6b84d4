"""Retained messages: the last message of each topic that was published with the retain flag."""
