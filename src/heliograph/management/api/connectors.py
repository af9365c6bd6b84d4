"""Connectors: the servers and places of actions and sources."""

from heliograph.control.proto_v1.actions import CONNECTORS
from heliograph.management.api.integration import add_integration_routes
from heliograph.management.web.area import Area

area = Area(
    "Connectors",
    "Servers and places to which actions bring the rows of rules, and of which sources take messages.",
    scope="connectors",
)

add_integration_routes(
    area,
    "connector",
    CONNECTORS,
    lambda row: {"actions": row.actions, "sources": row.sources},
    "Delete a connector; with `also_delete_dep_actions` its actions and sources are deleted with it.",
)
