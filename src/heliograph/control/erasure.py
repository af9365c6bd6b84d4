"""Answers the wish to erase what a node keeps of a client, of a topic filter, or of before a time."""

from collections.abc import Awaitable, Callable

from heliograph.control.proto_v1 import erasure as proto
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.storage.errors import InvalidFilterError, StorageError
from heliograph.storage.topic_filter import TopicFilter


def methods(erase: Callable[[proto.ErasureWanted], Awaitable[proto.ErasureMade]]) -> list[Method]:
    """What can be asked: `data.erase`.

    Args:
        erase: Erases; `node.erasures` implements it.
    """

    async def made(args: proto.ErasureWanted, call: Call) -> proto.ErasureMade:
        if [args.clientid, args.topic, args.before].count(None) != 2:
            raise RpcError(BAD_ARGUMENTS, "one of clientid, topic and before is needed, and only one")
        try:
            if args.topic is not None:
                TopicFilter(args.topic)
            return await erase(args)
        except InvalidFilterError as error:
            raise RpcError(BAD_ARGUMENTS, f"topic: {error.problem}") from error
        except StorageError as error:
            raise RpcError(error.code, str(error)) from error

    return [proto.DATA_ERASE.by(made)]
