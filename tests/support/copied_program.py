"""The program that stands for a copy of `python_copies`: `copied_program.py SOCKET -m MODULE ...`."""

import json
import os
import signal
import socket
import sys
from types import FrameType


def _main() -> int:
    place, *arguments = sys.argv[1:]
    request = {"arguments": arguments, "directory": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(place)

        def pass_on(number: int, _: FrameType | None) -> None:
            server.send(b"%d" % number)

        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, pass_on)
        code = int(server.recv(64) or 1)  # nothing comes of a server that has ended
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    os._exit(_main())
