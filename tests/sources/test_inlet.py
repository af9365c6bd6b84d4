"""What waits for the node while the connection to its origin is lost."""

import asyncio
from pathlib import Path

from heliograph.control.proto_v1.sources import Delivered, SourceBatch, SourceMessage
from heliograph.outbound import Outbound
from heliograph.settings.outbound import OutboundConfig
from heliograph.sources.inlet import Incoming, Inlet
from heliograph.sources.interface import SourceEnvironment
from heliograph.sources.mqtt import MqttSubscription


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


async def test_a_server_that_answers_is_not_blamed_while_the_node_takes_nothing(tmp_path: Path) -> None:
    taken, connected = asyncio.Event(), asyncio.Event()

    async def deliver(batch: SourceBatch) -> Delivered:
        await taken.wait()
        return Delivered(len(batch.messages), [], "")

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What waits for the session comes before the answer to its subscription."""
        await reader.read(1000)
        writer.write(b"\x20\x02\x01\x00")
        await reader.read(1000)
        writer.write(b"".join(b"\x32\x05\x00\x01t\x00" + bytes([number]) for number in (1, 2, 3)))
        writer.write(b"\x90\x03\x00\x01\x01")
        while await reader.read(1000):
            pass

    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    inlet = Inlet("mqtt:one", deliver, lambda why: None)
    around = SourceEnvironment("mqtt:one", inlet, connected.set, Outbound(OutboundConfig()), tmp_path)
    one = {"host": "127.0.0.1", "port": port, "clientid": "c", "topic": "t", "qos": 1, "no_local": False}
    times = {"session_expiry": 60, "version": "v4", "keepalive": 60, "window": 1, "timeout": 0.2}
    source = MqttSubscription({**one, **times}, around)
    running = asyncio.create_task(inlet.run())
    session = asyncio.create_task(source.session())
    # Its timeout passes twice, which is nothing that could be waited for.
    assert not (await asyncio.wait({session}, timeout=0.4))[0], session
    assert not connected.is_set()
    taken.set()
    async with asyncio.timeout(60):
        await connected.wait()
    for task in (session, running):
        task.cancel()
    await asyncio.gather(session, running, return_exceptions=True)
    server.close()


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
