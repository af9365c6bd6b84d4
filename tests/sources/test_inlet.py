"""What waits for the node while the connection to its origin is lost."""

import asyncio

from heliograph.control.proto_v1.sources import Delivered, SourceBatch, SourceMessage
from heliograph.sources.inlet import Incoming, Inlet


async def test_what_the_node_holds_of_a_lost_connection_is_not_acknowledged_in_the_next() -> None:
    """Its origin sends it again, or has another message of that identifier by then."""
    asked: asyncio.Queue[tuple[SourceBatch, asyncio.Future[Delivered]]] = asyncio.Queue()
    acknowledged: list[str] = []

    async def deliver(batch: SourceBatch) -> Delivered:
        answer: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        await asked.put((batch, answer))
        return await answer

    async def put(topic: str, qos: int) -> None:
        await inlet.put(Incoming(SourceMessage(topic, qos=qos), lambda: acknowledged.append(topic)))

    inlet = Inlet("mqtt:one", deliver, lambda why: None)
    running = asyncio.create_task(inlet.run())
    await put("before", 2)
    _, answer = await asked.get()
    await put("waits", 1)
    await put("kept", 0)
    lost = asyncio.create_task(inlet.drop_unacknowledged())
    answer.set_result(Delivered(0, [], "the disk is full"))
    await lost
    await put("after", 2)
    batch, answer = await asked.get()
    answer.set_result(Delivered(len(batch.messages), [], ""))
    assert [one.topic for one in batch.messages] == ["kept", "after"]
    await put("last", 1)
    await asked.get()
    assert acknowledged == ["kept", "after"]
    running.cancel()


async def test_a_source_does_not_stand_still_after_a_fault() -> None:
    held: asyncio.Queue[str] = asyncio.Queue()
    faults = [TypeError("not expected")]
    topics: list[str] = []

    async def deliver(batch: SourceBatch) -> Delivered:
        if faults:
            raise faults.pop()
        topics.extend(one.topic for one in batch.messages)
        return Delivered(len(batch.messages), [], "")

    def lost() -> None:
        raise ConnectionResetError

    inlet = Inlet("mqtt:one", deliver, held.put_nowait)
    running = asyncio.create_task(inlet.run())
    await inlet.put(Incoming(SourceMessage("a", qos=1), lost))
    assert await held.get() == "a batch cannot be brought: TypeError: not expected"
    assert await held.get() == ""
    await inlet.put(Incoming(SourceMessage("b", qos=1), lambda: None))
    await held.get()
    assert topics == ["a", "b"]
    running.cancel()
