"""Settings of `authentication`: who a client is, found out by one authenticator after the other.

A module for each kind of authenticator; `kinds` lists them.
"""
