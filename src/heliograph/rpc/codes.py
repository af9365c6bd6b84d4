"""The codes of failures that the server of methods gives itself; those of methods stand where they are raised."""

from typing import Final

CANCELLED: Final = "cancelled"
CONNECTION_LOST: Final = "connection_lost"
DEADLINE_EXCEEDED: Final = "deadline_exceeded"
STOPPING: Final = "stopping"

UNKNOWN_METHOD: Final = "unknown_method"
BAD_ARGUMENTS: Final = "bad_arguments"
TOO_MANY_REQUESTS: Final = "too_many_requests"
OVERLOADED: Final = "overloaded"
ANSWER_TOO_LARGE: Final = "answer_too_large"
INTERNAL: Final = "internal"

BAD_FRAME: Final = "bad_frame"
VERSION_MISMATCH: Final = "version_mismatch"
TOO_MANY_CONNECTIONS: Final = "too_many_connections"
IDLE: Final = "idle"
