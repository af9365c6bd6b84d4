"""Telemetry, as EMQX sends it to its makers: this broker sends none."""

from typing import Any

from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool

area = Area("Telemetry", "No data about this installation is sent anywhere.", scope="config")


class TelemetryStatus(Body):
    """Whether anything is sent."""

    enable: Bool


@area.get("/telemetry/status")
async def get_telemetry_status() -> TelemetryStatus:
    """Whether telemetry is on; it is always off."""
    return TelemetryStatus(enable=False)


@area.put("/telemetry/status")
async def update_telemetry_status(body: TelemetryStatus) -> TelemetryStatus:
    """Change the status; telemetry cannot be turned on."""
    text = "there is no telemetry, and nothing to send it to" if body.enable else "telemetry is already disabled"
    raise ApiError(400, "BAD_REQUEST", text)


@area.get("/telemetry/data", errors=MISSING)
async def get_telemetry_data() -> dict[str, Any]:
    """The data of telemetry; there is none."""
    raise ApiError(404, "NOT_FOUND", "telemetry is not enabled")
