"""Simulated machines side by side: each has its own clock and disk, and what ends one leaves the others alone."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.node import clock
from sim.broker import Broker
from sim.configs import base_config
from sim.machine import Machines
from sim.network import Connection, Network
from support.packets import decode_all, properties, publish

HOUR_US = 3_600_000_000


class Client:
    """A client that remembers what it gets."""

    def __init__(self, broker: Broker, clientid: str) -> None:
        connection = broker.connect(self)
        assert connection is not None
        self._received = b""  # in pieces that are no packets
        self.is_lost = False
        self._connection = connection
        self.send(p.Connect(p.V5, clientid, False, 0, None, None, None, properties(session_expiry_interval=3600)))

    def send(self, packet: p.Packet) -> None:
        self._connection.send(encode_packet(packet, p.V5))

    def on_data(self, connection: Connection, data: bytes) -> None:
        self._received += data

    def on_lost(self, connection: Connection) -> None:
        self.is_lost = True

    def payloads(self) -> list[bytes]:
        return [bytes(one.payload) for one in decode_all(self._received, p.V5) if isinstance(one, p.Publish)]


@pytest.fixture
def machines() -> Iterator[Machines]:
    machines = Machines()
    with machines.installed():
        yield machines


def wall_us() -> int:
    """The wall clock, as a module of the node reads it."""
    nanoseconds: int = vars(clock)["time"].time_ns()
    return nanoseconds // 1000


def a_broker(machines: Machines, name: str, path: Path) -> Broker:
    machine = machines.add(name)
    network = Network(machine, machines.agenda, random.Random(name), lambda connection, data: None)
    network.breaks = network.hiccups = 0.0
    config = base_config()
    broker = Broker(machine, network, replace(config, node=replace(config.node, data_dir=str(path / name))), print)
    broker.start()
    return broker


def run(machines: Machines, seconds: float = 2.0) -> None:
    until_us = machines.time.us + round(seconds * 1e6)
    while machines.turn(until_us):
        pass


def test_a_power_cut_of_one_machine_leaves_the_other_alone(machines: Machines, tmp_path: Path) -> None:
    first, second = (a_broker(machines, name, tmp_path) for name in ("first", "second"))
    clients = [Client(broker, "same") for broker in (first, second)]
    for client in clients:
        client.send(p.Subscribe(1, [p.SubscribeEntry("t", 1, False, False, 0)], properties()))
    run(machines)
    clients[0].send(publish("t", b"<first-1>", 1, 2))
    clients[1].send(publish("t", b"<second-1>", 1, 2))
    run(machines)
    assert [client.payloads() for client in clients] == [[b"<first-1>"], [b"<second-1>"]]
    disks = [broker.machine.disk for broker in (first, second)]
    assert [disk.has("messages", b"<first-1>") for disk in disks] == [True, False]

    first.kill(random.Random(0), power=True)
    run(machines)
    assert [client.is_lost for client in clients] == [True, False]
    clients[1].send(publish("t", b"<second-2>", 1, 3))
    run(machines)
    assert clients[1].payloads() == [b"<second-1>", b"<second-2>"]

    first.start()
    again = Client(first, "same")
    run(machines)
    assert again.payloads() == [b"<first-1>"], "what was not acknowledged comes again"
    for broker in (first, second):
        broker.close()


def test_each_machine_has_a_clock_of_its_own(machines: Machines) -> None:
    first, second = (machines.add(name) for name in ("first", "second"))
    second.clock.wall_us += HOUR_US
    times: list[int] = []
    for machine in (first, second):
        with machine.running():
            times.append(wall_us())
    assert times[1] - times[0] == HOUR_US
    run(machines)
    with first.running():
        assert wall_us() - times[0] == machines.time.us


def test_code_that_runs_on_no_machine_has_no_time(machines: Machines) -> None:
    with pytest.raises(IndexError):
        wall_us()
