"""The victim: a pair of clients with a message on its way every few milliseconds, in a process of its own.

It reads `measure SECONDS` from its standard input and answers with the round trips in microseconds, as JSON.
"""

import json
import socket
import sys
import time
from typing import Final

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from support.packets import publish

_PAUSE_S: Final = 0.005
_ANSWER_S: Final = 30.0


def main() -> None:
    """Serve `measure` until standard input ends."""
    port = int(sys.argv[1])
    subscriber, publisher = _connected(port, "victim-sub"), _connected(port, "victim-pub")
    entry = p.SubscribeEntry("victim/topic", 0, False, False, 0)
    subscriber.sendall(encode_packet(p.Subscribe(1, [entry], Properties()), p.V3_1_1))
    subscriber.recv(64)
    for line in sys.stdin:
        trips = _measured(publisher, subscriber, float(line.split()[1]))
        sys.stdout.write(json.dumps(trips) + "\n")
        sys.stdout.flush()


def _connected(port: int, clientid: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(_ANSWER_S)
    packet = p.Connect(p.V3_1_1, clientid, True, 0, None, None, None, Properties())
    connection.sendall(encode_packet(packet, p.V3_1_1))
    connection.recv(64)
    return connection


def _measured(publisher: socket.socket, subscriber: socket.socket, seconds: float) -> list[int]:
    packet = publish("victim/topic", b"x" * 32, version=p.V3_1_1).data
    trips: list[int] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sent_at = time.perf_counter()
        publisher.sendall(packet)
        missing = len(packet)
        while missing:
            data = subscriber.recv(missing)
            if not data:
                raise ConnectionError("the broker closed the victim's connection")
            missing -= len(data)
        trips.append(round((time.perf_counter() - sent_at) * 1e6))
        time.sleep(_PAUSE_S)  # its pace
    return trips


if __name__ == "__main__":
    main()
