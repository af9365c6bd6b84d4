"""A resolver in which a test says which addresses names have, and what another look at one would give."""

import socket
from collections.abc import Sequence

from heliograph.outbound import SocketAddress


class Names:
    """A resolver for `Outbound`. Each answer of a name is given once, in its order, and the last one from then on.

    Args:
        answers: Of each name the answers, each of IPv4 addresses with blanks between.
    """

    def __init__(self, **answers: Sequence[str]) -> None:
        self._answers = {name: list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[SocketAddress]:
        self.asked.append(host)
        if host not in self._answers:
            raise socket.gaierror(socket.EAI_NONAME, f"there is no name {host}")
        left = self._answers[host]
        found = left.pop(0) if len(left) > 1 else left[0]
        return [SocketAddress(socket.AF_INET, (address, port)) for address in found.split()]
