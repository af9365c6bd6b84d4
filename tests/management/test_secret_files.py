"""Secrets that stand in files of the node are for those who may change its configuration."""

from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from heliograph.management.web.area import Area
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import add_error_handlers


class _Callers:
    """Everybody has the role that they say."""

    async def identify(self, request: Request) -> Caller:
        """Who calls."""
        return Caller("somebody", "user", request.headers["role"])


@pytest.mark.parametrize(
    ("role", "body", "status"),
    [
        ("administrator", b'{"password": "file:///etc/passwd"}', 200),
        ("operator", b'{"password": "secret", "comment": "a file:// in it"}', 200),
        ("operator", b'{"password": "file:///etc/passwd"}', 403),
        ("operator", b'{"password": "\\u0066ile:///etc/passwd"}', 403),
        ("operator", b'{"auth": [{"password": "file:///etc/passwd"}]}', 403),
        ("administrator", b'{"a":' * 100 + b"1" + b"}" * 100, 400),
    ],
)
async def test_who_may_name_files_of_secrets(role: str, body: bytes, status: int) -> None:
    area = Area("Settings")

    @area.put("/connector", scope="connectors:write")
    async def put_connector(body: dict[str, Any]) -> dict[str, Any]:
        return body

    app = FastAPI()
    app.state.callers = _Callers()
    app.state.places = {}
    app.router.routes.extend(area.routes)
    add_error_handlers(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        headers = {"role": role, "content-type": "application/json"}
        answer = await client.put("/api/v5/connector", content=body, headers=headers)
    assert answer.status_code == status
    assert ("UNAUTHORIZED_ROLE" in answer.text) == (status == 403)
    assert ("64 levels" in answer.text) == (status == 400)
