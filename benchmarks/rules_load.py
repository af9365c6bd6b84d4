"""Load for rules: one client publishes ready-made packets as fast as the broker reads, another counts what comes.

A program of its own, so that it has a core of its own. Prints one line of JSON. What comes is counted by its bytes,
which the sender knows: every packet is as long as every other.
"""

import argparse
import json
import selectors
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet, encode_publish
from heliograph.mqtt.properties import Properties

_V = p.V3_1_1
_BATCH = 500
_BUFFER = 1 << 20


def main() -> int:
    """Load the broker, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--topic", default="t/1", help="where to publish")
    parser.add_argument("--payload", default='{"a":1,"b":20}')
    parser.add_argument("--listen", default="t/#", help="the filter whose messages are counted")
    parser.add_argument("--answer-topic", help="the topic of what comes; default: --topic")
    parser.add_argument("--answer", help="the payload of what comes; default: --payload")
    args = parser.parse_args()
    topic, payload = args.topic.encode(), args.payload.encode()
    answer_topic, answer = (args.answer_topic or args.topic).encode(), (args.answer or args.payload).encode()
    sent = publish_packet(topic, payload)
    came = len(publish_packet(answer_topic, answer))
    subscriber = connect(args.port, "counting")
    entry = p.SubscribeEntry(args.listen, 0, False, False, 0)
    subscriber.sendall(encode_packet(p.Subscribe(1, [entry], Properties()), _V))
    subscriber.recv(100)
    publisher = connect(args.port, "sending")
    count, total, seconds = _run(publisher, subscriber, sent * _BATCH, args.seconds)
    print(json.dumps({"received": count / came, "total": total / came, "seconds": seconds}))
    return 0


def publish_packet(topic: bytes, payload: bytes) -> bytes:
    """A PUBLISH at QoS 0."""
    return encode_publish(_V, topic, payload, 0, False, False, 0, b"")


def connect(port: int, clientid: str) -> socket.socket:
    """A client whose CONNACK has come."""
    client = socket.create_connection(("127.0.0.1", port))
    connect = p.Connect(_V, clientid, True, 0, None, None, None, Properties())
    client.sendall(encode_packet(connect, _V))
    client.recv(100)
    return client


def _run(publisher: socket.socket, subscriber: socket.socket, batch: bytes, seconds: float) -> tuple[int, int, float]:
    """Bytes that came within so many seconds after a warm-up of a fifth of them, and those of both."""
    for client in (publisher, subscriber):
        client.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(publisher, selectors.EVENT_WRITE)
    selector.register(subscriber, selectors.EVENT_READ)
    buffer = bytearray(_BUFFER)
    begin = time.perf_counter() + seconds / 5
    end = begin + seconds
    warm = came = at = 0
    counts = False
    while (now := time.perf_counter()) < end:
        if not counts and now >= begin:
            warm, came, counts, began = came, 0, True, now
        for key, _ in selector.select(0.1):
            if key.fileobj is subscriber:
                got = subscriber.recv_into(buffer)
                if not got:
                    raise ConnectionError("the broker closed the connection")
                came += got
            else:
                done = publisher.send(memoryview(batch)[at:])
                at = (at + done) % len(batch)
    return came, came + warm, now - began


if __name__ == "__main__":
    sys.exit(main())
