"""The users and API keys of the node as this process knows them: read again whenever their revision is another one."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.control.proto_v1.people import (
    PEOPLE_KEY_SECRETS,
    PEOPLE_REVISION,
    PEOPLE_USER_SECRETS,
    ApiKeySecrets,
    ManagementUserSecrets,
)
from heliograph.management.asking.nodes import Node


@dataclass(frozen=True, slots=True)
class People:
    revision: int = -1
    users: Mapping[str, ManagementUserSecrets] = field(default_factory=dict)
    keys: Mapping[str, ApiKeySecrets] = field(default_factory=dict)


class KnownPeople:
    """Asks the node for them; owned by `PeopleCallers`.

    What `fresh` returns is no older than its call: a key that was deleted before a request came is not valid. So each
    request waits for the node to say its revision; many that come meanwhile wait for one and the same answer.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._people = People()
        self._asking: asyncio.Task[People] | None = None
        self._next: asyncio.Task[People] | None = None  # begins when the one before it has ended

    async def fresh(self) -> People:
        """All, as they are now."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._asking), name="users and API keys")
            self._next.add_done_callback(_retrieved)
        return await asyncio.shield(self._next)

    async def stop(self) -> None:
        """Give up what is asked."""
        tasks = [task for task in (self._asking, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_after(self, before: asyncio.Task[People] | None) -> People:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        revision = (await self._node.ask(PEOPLE_REVISION())).revision
        if revision != self._people.revision:
            users = await self._node.rows(PEOPLE_USER_SECRETS())
            keys = await self._node.rows(PEOPLE_KEY_SECRETS())
            self._people = People(
                revision, {one.user.username: one for one in users}, {one.key.api_key: one for one in keys}
            )
        return self._people


def _retrieved(task: asyncio.Task[People]) -> None:
    """Take a failure, which goes to those that wait; they may all be gone."""
    if not task.cancelled():
        task.exception()
