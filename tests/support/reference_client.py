"""A caller of the HTTP API that is written against EMQX's reference only: plain requests, statuses and shapes."""

from collections.abc import Iterable, Mapping
from typing import Any

import httpx


class ReferenceClient:
    """Calls, each with the status that the reference has; owned by the test.

    Args:
        api: What calls are made with.

    Attributes:
        calls: How many were made.
    """

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self.calls = 0

    def get(self, path: str, status: int = 200, **more: Any) -> Any:
        """GET: the body."""
        return self._call("GET", path, status, **more)

    def post(self, path: str, body: object = None, status: int = 200, **more: Any) -> Any:
        """POST: the body of the answer."""
        return self._call("POST", path, status, json=body, **more)

    def put(self, path: str, body: object = None, status: int = 200, **more: Any) -> Any:
        """PUT: the body of the answer."""
        return self._call("PUT", path, status, json=body, **more)

    def delete(self, path: str, status: int = 204, **more: Any) -> Any:
        """DELETE: the body of the answer."""
        return self._call("DELETE", path, status, **more)

    def refused(self, method: str, path: str, status: int, code: str, body: object = None) -> None:
        """A call that is answered with an error of the common form."""
        answer = self._call(method, path, status, **({} if body is None else {"json": body}))
        assert answer["code"] == code, (method, path, answer)
        assert isinstance(answer["message"], str), (method, path, answer)

    def page(self, path: str, **params: Any) -> list[Any]:
        """The rows of a list in pages."""
        answer = self.get(path, params=params)
        assert {"page", "limit", "hasnext"} <= answer["meta"].keys(), answer
        assert isinstance(answer["data"], list)
        rows: list[Any] = answer["data"]
        return rows

    def _call(self, method: str, path: str, status: int, **more: Any) -> Any:
        if more.get("json", ...) is None:
            del more["json"]
        answer = self._api.request(method, path, **more)
        self.calls += 1
        assert answer.status_code == status, (method, path, answer.status_code, answer.text[:1000])
        if not answer.content:
            return None
        return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text


def has(found: Mapping[str, Any], keys: Iterable[str]) -> Mapping[str, Any]:
    """An object, which has these keys."""
    missing = set(keys) - found.keys()
    assert not missing, (missing, found)
    return found
