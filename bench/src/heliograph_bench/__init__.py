"""The load tool: MQTT clients by the thousand, driven in batches, against any broker.

What the clients say and count is sans-IO (`packets`, `runs`, `clients`, `publisher`, `subscriber`); `links` and
`driver` give them sockets and time; `workload` says what a run is, `latency` and `report` what came of it. Nothing here
knows Heliograph's broker.
"""

import heliograph  # noqa: F401 - it chooses between compiled modules and sources
