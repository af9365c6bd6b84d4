"""The program that stands for a copy of `python_copies`: `copied_program.py SOCKET -m MODULE ...`.

It loads modules of C only: what `socket`, `signal` and `json` add around them takes longer than all that it does.
"""

import _signal  # type: ignore[import-not-found]  # the C part of `signal`
import _socket
import array
import marshal
import os
import sys

# How programs begin that tell the node their process, which has to be the one that it has started.
_NO_COPIES = (
    ["heliograph.pipeline.runner", "/"],
    ["heliograph.sources", "/"],
    ["heliograph.cli.main", "pipeline", "run"],
)
_PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)


def _main() -> int:
    place, *arguments = sys.argv[1:]
    if any(all(map(str.startswith, arguments[1:], begin)) for begin in _NO_COPIES):
        os.execv(sys.executable, [sys.executable, *arguments])
    umask = os.umask(0o077)
    os.umask(umask)
    request = {
        "arguments": arguments,
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "umask": umask,
    }
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(place)

    def pass_on(number: int, _: object) -> None:
        server.send(b"%d" % number)

    streams = array.array("i", [0, 1, 2])
    server.sendmsg([marshal.dumps(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    for number in _PASSED_ON:
        _signal.signal(number, pass_on)
    code = int(server.recv(64) or 1)  # nothing comes of a server that has ended
    if code < 0:
        if -code != 9:  # whose action cannot be changed
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    os._exit(_main())
