"""Several storage readers as one: each node of a cluster has the messages that its own clients published.

With one endpoint, streams have the ids that the reader gives them. With several, an id begins with the site of its node
(``SITE:messages/0/1/5``), which stays when the node gets another address. A node that does not answer fails the
request: to read on without it would leave out its messages, without saying which.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from heliograph.pipeline.datasource.client import MessageSelection, Positions, ReadPlan, StorageClient, StreamStep
from heliograph.pipeline.errors import OptionError, PipelineError

_OF_SITE: Final = ":"

_Value = TypeVar("_Value")


class Endpoints:
    """Connections to the storage readers of all nodes. Owned by the planning process; they open when they are used."""

    def __init__(self, endpoints: Sequence[str], connect: Callable[[str], StorageClient], database: str) -> None:
        self._clients = {endpoint: connect(endpoint) for endpoint in endpoints}
        self._database = database
        self._sites: dict[str, str] = {}

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def locate(self, stream: str) -> tuple[str, str]:
        """The endpoint of a stream, and its id there."""
        site, colon, own = stream.rpartition(_OF_SITE)
        if not colon:  # read before there were several: from the one that is named first
            return next(iter(self._clients)), stream
        endpoint = {self._site_of(endpoint): endpoint for endpoint in self._clients}.get(site)
        if endpoint is None:
            raise PipelineError(
                f"the stream {stream} is of the node with the site {site}, but the option endpoint names "
                f"{', '.join(self._clients)}: name the reader of that node as well"
            )
        return endpoint, own

    def named(self, positions: Positions) -> dict[str, str]:
        """Positions under the ids that streams have with these endpoints."""
        return {self._name(*self.locate(stream)): position for stream, position in positions.items()}

    def stored_until(self) -> int | None:
        """The time of the last commit, in microseconds since the epoch; None if nothing is stored."""
        times = [client.info(self._database)["stored_at"] for client in self._clients.values()]
        return max((time for time in times if time is not None), default=None)

    def plan(
        self,
        selection: MessageSelection,
        positions: Positions | None = None,
        *,
        messages_max: int | None = None,
        bytes_max: int | None = None,
    ) -> ReadPlan:
        """How far to read from the given positions; limits are shared out evenly; see `StorageClient.plan`."""
        known = self._by_endpoint(positions or {})
        steps: dict[str, StreamStep] = {}
        dropped: dict[str, int | None] = {}
        remaining = 0
        for endpoint, client in self._clients.items():
            limits = {"messages_max": self._share(messages_max), "bytes_max": self._share(bytes_max)}
            plan = client.plan(selection, known[endpoint], **limits)
            steps |= {self._name(endpoint, own): step for own, step in plan.streams.items()}
            dropped |= {self._name(endpoint, own): lost for own, lost in plan.dropped.items()}
            remaining += plan.messages_remaining
        return ReadPlan(steps, remaining, dropped)

    def split(
        self, selection: MessageSelection, ranges: Mapping[str, tuple[str, str]], *, messages_max: int, bytes_max: int
    ) -> dict[str, list[StreamStep]]:
        """Pieces of ranges of streams; see `StorageClient.split`."""
        pieces: dict[str, list[StreamStep]] = {}
        for endpoint, known in self._by_endpoint(ranges).items():
            if known:
                found = self._clients[endpoint].split(selection, known, messages_max=messages_max, bytes_max=bytes_max)
                pieces |= {self._name(endpoint, own): steps for own, steps in found.items()}
        return pieces

    def _by_endpoint(self, values: Mapping[str, _Value]) -> dict[str, dict[str, _Value]]:
        """Of each endpoint, the values of its streams by their ids there."""
        parts: dict[str, dict[str, _Value]] = {endpoint: {} for endpoint in self._clients}
        for stream, value in values.items():
            endpoint, own = self.locate(stream)
            parts[endpoint][own] = value
        return parts

    def _name(self, endpoint: str, own: str) -> str:
        return own if len(self._clients) == 1 else f"{self._site_of(endpoint)}{_OF_SITE}{own}"

    def _share(self, limit: int | None) -> int | None:
        return None if limit is None else max(1, limit // len(self._clients))

    def _site_of(self, endpoint: str) -> str:
        if endpoint not in self._sites:
            self._sites[endpoint] = self._clients[endpoint].info(self._database)["site"]
            if len(set(self._sites.values())) < len(self._sites):
                raise OptionError(
                    "endpoint", ",".join(self._clients), "readers of different nodes; two are of one node"
                )
        return self._sites[endpoint]

    def __repr__(self) -> str:
        return f"Endpoints({', '.join(self._clients)})"
