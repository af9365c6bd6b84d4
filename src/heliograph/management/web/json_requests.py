"""Bodies of requests as JSON: strict, so that what a route has read it can write again."""

from typing import Any, Final

import orjson
from fastapi import Request

from heliograph.management.web.errors import ApiError
from heliograph.settings.secrets import FILE_PREFIX

DEPTH_MAX: Final = 64


class JsonRequest(Request):
    """A request whose JSON has no `NaN`, no half of a surrogate pair, and no more than `DEPTH_MAX` levels.

    Attributes:
        may_name_secret_files: Whether texts of it may begin with `file://`, as secrets in files of the node do. A
            caller that names one could make the node send any file to any server.
        refusal: Why it was refused; the framework raises another error in its place.
    """

    may_name_secret_files = True
    refusal: ApiError | None = None

    async def json(self) -> Any:
        """The body.

        Raises:
            orjson.JSONDecodeError: It is no JSON.
            ApiError: 400, it is nested too deeply.
        """
        text = await self.body()
        value = orjson.loads(text)
        if text.count(b"[") + text.count(b"{") > DEPTH_MAX and _is_deeper(value, DEPTH_MAX):
            raise self._refused(400, "BAD_REQUEST", f"the body has more than {DEPTH_MAX} levels of arrays and objects")
        if not self.may_name_secret_files and (name := _secret_file(value)):
            raise self._refused(
                403,
                "UNAUTHORIZED_ROLE",
                f"{name[:200]!r}: only who may change the configuration names files of the node",
            )
        return value

    def _refused(self, status: int, code: str, message: str) -> ApiError:
        self.refusal = ApiError(status, code, message)
        return self.refusal


def _secret_file(value: object) -> str:
    """A text of a value that stands for a secret in a file; empty if there is none."""
    values = [value]
    for one in values:  # it grows
        if isinstance(one, dict):
            values.extend(one.values())
        elif isinstance(one, list):
            values.extend(one)
        elif isinstance(one, str) and one.startswith(FILE_PREFIX):
            return one
    return ""


def _is_deeper(value: object, levels: int) -> bool:
    """Whether arrays and objects have more levels than that."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)
