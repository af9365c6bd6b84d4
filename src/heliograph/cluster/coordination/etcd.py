"""etcd as coordinator, by its JSON gateway (`/v3/...`).

The gateway speaks HTTP/1.1: a call is a POST, a watch an answer that does not end, with a line for each revision.
Numbers of 64 bits are text, keys and values Base64, and what is zero, false or empty is left out. It knows no login by
the name of a certificate, so a user has a password; TLS stands beside that.

Sources: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/ and what etcd 3.4 does.
"""

import base64
import json
import logging
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, Final

import httpx

from heliograph.cluster.coordination.interface import (
    Changes,
    Commit,
    CommitOutcome,
    Coordinator,
    CoordinatorAwayError,
    CoordinatorRefusedError,
    Guard,
    LeaseGoneError,
    LeaseGrant,
    Listing,
    Put,
    Record,
    WatchGoneError,
    check_sizes,
)

_log = logging.getLogger(__name__)

# A watch that hears nothing for so long is begun again, since a connection that a firewall forgot is silent for ever.
_SILENCE_S: Final = 30.0

_NOT_FOUND: Final = 5
_SHOWN_MAX: Final = 200
# What a call, or a watch, is refused with when its token has ended, or was given before etcd asked for logins.
_LOGIN_OVER: Final = ("invalid auth token", "user name is empty")


@dataclass(frozen=True, slots=True)
class EtcdLogin:
    """A user of etcd."""

    username: str
    password: str


class _UnknownError(Exception):
    """A request was sent, and no answer says what became of it."""


class _LoginOverError(Exception):
    """The token of a request does not hold; nothing was done."""


class EtcdCoordinator(Coordinator):
    """A client of one etcd cluster.

    Args:
        endpoints: URLs of its members, such as `https://etcd-1:2379`; it keeps to one as long as that answers.
        transport: Opens the connections; TLS is its matter.
        login: Who it is; None where etcd asks for none.
        timeout_s: How long it waits for an answer of one member.
    """

    def __init__(
        self,
        endpoints: Collection[str],
        transport: httpx.AsyncBaseTransport,
        login: EtcdLogin | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._client = httpx.AsyncClient(transport=transport, trust_env=False)
        self._login = login
        self._timeout_s = timeout_s
        self._token = ""

    # --- records

    async def get(self, prefix: str) -> Listing:
        answer = await self._read("kv/range", _below(prefix))
        records = [_record(one) for one in answer.get("kvs", ())]
        return Listing({record.key: record for record in records}, int(answer["header"]["revision"]))

    async def commit(self, guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str] = ()) -> Commit:
        check_sizes(guards, puts, deletes)
        request = {
            "compare": [
                {"key": _b64(one.key), "target": "MOD", "result": "EQUAL", "mod_revision": str(one.revision)}
                for one in guards
            ],
            "success": [
                *({"request_put": _put(one)} for one in puts),
                *({"request_delete_range": {"key": _b64(key)}} for key in deletes),
            ],
        }
        try:
            answer = await self._call("kv/txn", request)
        except _UnknownError as error:
            _log.debug("a commit has no answer: %s", error)
            return Commit(CommitOutcome.UNKNOWN)
        if not answer.get("succeeded"):
            return Commit(CommitOutcome.CONFLICT)
        return Commit(CommitOutcome.COMMITTED, int(answer["header"]["revision"]))

    async def watch(self, prefix: str, since: int) -> AsyncIterator[Changes]:
        following = since + 1
        problems: list[str] = []
        while len(problems) <= len(self._endpoints):  # each member once, and one of them again
            endpoint = self._endpoints[0]
            request = {"create_request": _range_from(prefix, following)}
            try:
                async for line in self._lines(endpoint, "watch", request):
                    if line.get("created"):
                        yield Changes(following - 1, {})
                    for changes in _changes(line):
                        problems.clear()
                        following = changes.revision + 1
                        yield changes
                problems.append(f"{endpoint} ended the watch")
                self._turn(endpoint)
            except _LoginOverError as error:
                problems.append(str(error))  # with the next it logs in first
            except httpx.ReadTimeout:
                self._turn(endpoint)  # silence is no fault; another member may know more
            except (httpx.TransportError, _UnknownError) as error:
                problems.append(_problem(endpoint, error))
                self._turn(endpoint)
        raise CoordinatorAwayError("; ".join(problems))

    # --- leases

    async def grant(self, ttl_s: int) -> LeaseGrant:
        answer = await self._read("lease/grant", {"TTL": str(ttl_s)})
        return LeaseGrant(int(answer["ID"]), int(answer["TTL"]))

    async def keep(self, lease: int, timeout_s: float) -> None:
        answer = await self._read("lease/keepalive", {"ID": str(lease)}, timeout_s / len(self._endpoints))
        if not int(answer["result"].get("TTL", 0)):
            raise LeaseGoneError(f"the lease {lease:x} has ended")

    async def revoke(self, lease: int) -> None:
        try:
            await self._read("lease/revoke", {"ID": str(lease)})
        except LeaseGoneError:
            return

    async def close(self) -> None:
        await self._client.aclose()

    # --- requests

    async def _read(self, path: str, request: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """The answer to a request that may be sent again."""
        problems: list[str] = []
        for _ in self._endpoints:
            try:
                return await self._call(path, request, timeout_s)
            except _UnknownError as error:
                problems.append(str(error))
        raise CoordinatorAwayError("; ".join(problems))

    async def _call(self, path: str, request: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """The answer to a request that reaches one member at most.

        Raises:
            _UnknownError: It was sent, and there is no answer.
            CoordinatorAwayError: No member can be connected to.
        """
        problems: list[str] = []
        for _ in range(len(self._endpoints)):
            endpoint = self._endpoints[0]
            try:
                return await self._with_login(endpoint, path, request, timeout_s or self._timeout_s)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problems.append(_problem(endpoint, error))
                self._turn(endpoint)
            except httpx.TransportError as error:
                self._turn(endpoint)
                raise _UnknownError(_problem(endpoint, error)) from error
        raise CoordinatorAwayError("; ".join(problems))

    async def _with_login(self, endpoint: str, path: str, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        for _ in range(2):  # with a token from before, and with a new one
            await self._log_in(endpoint)
            try:
                return self._answer(endpoint, await self._send(endpoint, path, request, timeout_s))
            except _LoginOverError as error:
                fault = str(error)
        raise CoordinatorRefusedError(f"{endpoint}: {fault}")

    async def _send(self, endpoint: str, path: str, request: dict[str, Any], timeout_s: float) -> httpx.Response:
        # etcd has a deadline of its own, a bit earlier, so that its answer says more than silence.
        headers = {"Grpc-Timeout": f"{round(timeout_s * 800)}m", **self._authorization()}
        url = f"{endpoint}/v3/{path}"
        return await self._client.post(url, json=request, headers=headers, timeout=timeout_s)

    async def _lines(self, endpoint: str, path: str, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The lines of an answer that does not end."""
        await self._log_in(endpoint)
        # A member without a leader would be silent: with this it says so.
        headers = {"Grpc-Metadata-hasleader": "true", **self._authorization()}
        timeout = httpx.Timeout(self._timeout_s, read=_SILENCE_S)
        url = f"{endpoint}/v3/{path}"
        async with self._client.stream("POST", url, json=request, headers=headers, timeout=timeout) as response:
            if response.status_code != httpx.codes.OK:
                await response.aread()
                self._answer(endpoint, response)
            async for line in response.aiter_lines():
                if line.strip():
                    yield self._line(endpoint, line)

    def _line(self, endpoint: str, line: str) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads(line)["result"]
        except (ValueError, KeyError, TypeError):
            raise _UnknownError(f"{endpoint}: {line[:_SHOWN_MAX]}") from None
        if result.get("canceled"):
            if int(result.get("compact_revision", 0)):
                raise WatchGoneError(f"etcd has forgotten what was before revision {result['compact_revision']}")
            reason = result.get("cancel_reason") or "it ends the watch"
            self._check_login(reason)
            raise CoordinatorRefusedError(f"{endpoint}: {reason}")
        return result

    def _answer(self, endpoint: str, response: httpx.Response) -> dict[str, Any]:
        """The document of an answer, or what it refuses."""
        if response.status_code == httpx.codes.OK:
            answer = _document(response)
            if not answer or "error" in answer:  # of a stream, or of a proxy before it
                raise _UnknownError(f"{endpoint}: {response.text[:_SHOWN_MAX]}")
            return answer
        code, message = _fault(response)
        where = f"{endpoint}: {message}"
        self._check_login(message)
        if response.is_server_error:  # no leader (503), a deadline (504, or 500 with "context deadline exceeded")
            self._turn(endpoint)
            raise _UnknownError(where)
        if code == _NOT_FOUND and "lease" in message:
            raise LeaseGoneError(message)
        raise CoordinatorRefusedError(where)

    def _check_login(self, fault: str) -> None:
        """Forget a token that does not hold any more."""
        if self._token and any(reason in fault for reason in _LOGIN_OVER):
            self._token = ""
            raise _LoginOverError(fault)

    async def _log_in(self, endpoint: str) -> None:
        """Get a token, where there is a login and none."""
        if self._login is None or self._token:
            return
        request = {"name": self._login.username, "password": self._login.password}
        answer = self._answer(endpoint, await self._send(endpoint, "auth/authenticate", request, self._timeout_s))
        self._token = str(answer["token"])

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token else {}

    def _turn(self, endpoint: str) -> None:
        """Go on with another member than this, unless another call did: two turns of two would end where they began."""
        if self._endpoints[0] == endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    def __repr__(self) -> str:
        return f"EtcdCoordinator({self._endpoints[0]})"


def _problem(endpoint: str, error: Exception) -> str:
    return f"{endpoint}: {str(error) or type(error).__name__}"


def _fault(response: httpx.Response) -> tuple[int, str]:
    """Code and message of an answer that is an error."""
    document = _document(response)
    if not document:
        return 0, f"status {response.status_code}: {response.text[:_SHOWN_MAX]!r}"
    code = document.get("code")
    return code if isinstance(code, int) else 0, str(document.get("message") or document.get("error"))


def _document(response: httpx.Response) -> dict[str, Any]:
    """The object that an answer has; empty where it has none."""
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _b64(key: str) -> str:
    return base64.b64encode(key.encode()).decode()


def _below(prefix: str) -> dict[str, Any]:
    """The range of all keys that begin with a prefix."""
    lower = prefix.encode()
    upper = lower[:-1] + bytes([lower[-1] + 1])
    return {"key": _b64(prefix), "range_end": base64.b64encode(upper).decode()}


def _range_from(prefix: str, revision: int) -> dict[str, Any]:
    return {**_below(prefix), "start_revision": str(revision)}


def _put(one: Put) -> dict[str, Any]:
    value = base64.b64encode(one.value).decode()
    return {"key": _b64(one.key), "value": value, **({"lease": str(one.lease)} if one.lease else {})}


def _record(document: dict[str, Any]) -> Record:
    key = base64.b64decode(document["key"]).decode("utf-8", "backslashreplace")
    return Record(key, base64.b64decode(document.get("value", "")), int(document["mod_revision"]))


def _changes(line: dict[str, Any]) -> list[Changes]:
    """What a line of a watch has: one revision as a rule, several where it catches up."""
    found: dict[int, dict[str, Record | None]] = {}
    for event in line.get("events", ()):
        record = _record(event["kv"])
        found.setdefault(record.revision, {})[record.key] = None if event.get("type") == "DELETE" else record
    return [Changes(revision, records) for revision, records in sorted(found.items())]
