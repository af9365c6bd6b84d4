"""Probes of what is stored: databases, sessions, the storage reader, the pipeline."""

from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from live_settings.probes_rules import until
from live_settings.table import Run, World, probe_text

STORES = 'topics = ["s/#"]'


def _database(path: str, name: str, settings: str, run: Run) -> None:
    probe_text(f"durable_storage.{path}", f"durable_storage.{name} {{ {STORES}, {settings} }}\n")(run)


async def _stored(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    before = world.number("storage.messages")
    await client.publish("s/t", b"x", 1)
    await client.publish("other", b"x", 1)
    assert world.number("storage.messages") == before + 1


async def _copied(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    await client.publish("s/t", b"x", 1)
    assert world.number("storage.more.messages") == 1


def _removes(name: str) -> Run:
    """Generations are closed, and old ones removed."""

    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        yield
        counted = world.number(name)
        while world.number(name) == counted:
            await client.publish("s/t", b"x" * 10_000, 1)

    return run


async def _offloads(world: World) -> AsyncIterator[None]:
    """What it offloads is shown in `node.test_offload`: its process leaves a busy machine to others, and takes long."""
    client = await world.connect()
    yield
    await client.publish("s/t", b"x", 1)
    await until(world, "storage.offload.process_starts")


async def _merged(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    for _ in range(100):  # each has a commit, and so a block, of its own
        await client.publish("s/merged", b"x", 1)
    await until(world, "storage.compaction.merges")


for _path, _value in (("topics", ""), ("fsync", "fsync = false"), ("max_buffered_bytes", "max_buffered_bytes = 64KB")):
    _database(f"messages.{_path}", "messages", _value, _stored)
_database("messages.generation_interval", "messages", "generation_interval = 1s", _removes("storage.generations"))
_database("messages.retention", "messages", "generation_interval = 1s, retention = 1s",
          _removes("storage.dropped_generations"))  # fmt: skip
_database("messages.max_bytes", "messages", "max_bytes = 1MB", _removes("storage.generations"))
_database("messages.compaction", "messages",
          "compaction { min_age = 0s, small_messages = 2, small_bytes = 4KB, pause = 1ms, interval = 1ms }",
          _merged)  # fmt: skip
_OFFLOAD = "offload { enable = true, target = elsewhere, after = 0s }"
_database("messages.offload", "messages", f"generation_interval = 1s, {_OFFLOAD}", _offloads)
_database("databases", "databases.more", "retention = 1d, compaction.enable = false", _copied)


@probe_text("durable_storage.flight", 'durable_storage.flight { enable = true, bind = "127.0.0.1:0" }')
async def flight(world: World) -> AsyncIterator[None]:
    assert world.number("reader.damaged_places") == 0
    yield
    assert world.number("reader.running") == 1


@probe_text("durable_sessions", "durable_sessions { batch_size = 1, checkpoint_interval = 1h }")
@probe_text(
    "durable_shared_groups",
    "durable_shared_groups { checkpoint_interval = 1h, stall_timeout = 1s, revoke_timeout = 1s }",
)
async def sessions(world: World) -> AsyncIterator[None]:
    """On a node that stores nothing; what they do is shown in `node.test_live_parts`."""
    client = await world.connect(clean_start=False, session_expiry_interval=60)
    await client.subscribe("t", 1)
    yield
    await client.publish("t", b"x", 1)
    assert (await client.take(p.Publish)).payload == b"x"
