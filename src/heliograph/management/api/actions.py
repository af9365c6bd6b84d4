"""Actions: where the rows of the rules that name them go."""

from heliograph.config.actions.roots import ACTION_TYPES
from heliograph.control.proto_v1.actions import ACTIONS, ACTIONS_RESET
from heliograph.management.api.integration import add_counted_routes, add_integration_routes
from heliograph.management.web.area import Area

area = Area("Actions", "Where the rows of the rules that name an action go.", scope="actions")

shown_actions = add_integration_routes(
    area,
    "action",
    ACTIONS,
    lambda row: {"connector": row.connector, "rules": row.rules},
    "Delete an action; with `also_delete_dep_actions` it is taken out of the rules that name it.",
)

add_counted_routes(area, "action", ACTIONS, ACTIONS_RESET, ACTION_TYPES, shown_actions)
