"""What clients of a server of methods share: how they fail, and which arguments can be sent."""

from typing import Final

import msgspec

from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.frames import ARGS_BYTES_MAX, raw
from heliograph.rpc.methods import RpcError

CANNOT_SPEAK: Final = "what answers there is no server of methods"
_SHOWN_LENGTH_MAX: Final = 200


class UnreachableError(Exception):
    """Nothing answers at a socket; the message says why."""


def sendable(args: msgspec.Struct) -> msgspec.Raw:
    """Arguments as a part of a request.

    Raises:
        RpcError: No node takes them: they have bytes that are no text, or too many.
    """
    try:
        sent = raw(args)
    except UnicodeEncodeError as error:
        shown = error.object[:_SHOWN_LENGTH_MAX]
        raise RpcError(BAD_ARGUMENTS, f"{shown!r} is not valid UTF-8; ids, topics and all other texts are") from error
    size = len(bytes(sent))
    if size > ARGS_BYTES_MAX:
        raise RpcError(BAD_ARGUMENTS, f"the arguments have {size:,} bytes; at most {ARGS_BYTES_MAX:,} are valid")
    return sent
