"""A connection to PostgreSQL that ends when its server is silent for too long. Importing this loads psycopg.

The server watches over `statement_timeout`; one that is stopped, or whose host is, does not. Its kernel acknowledges
what is sent, so that no timeout of TCP ends a wait for the answer either.
"""

import time
from typing import Any, Final

import psycopg

_LOOKS_A_SECOND: Final = 1.0


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Raises `psycopg.OperationalError` after a silence, and is closed then.

    Attributes:
        silence_max_s: For how long nothing may come while something is awaited; longer than the server's own timeout.
    """

    silence_max_s: float = 60.0

    def wait(self, gen: Any, interval: float = _LOOKS_A_SECOND, timeout: float | None = None) -> Any:
        """See `psycopg.Connection.wait`."""
        return super().wait(self._watched(gen), interval, timeout)

    def _watched(self, gen: Any) -> Any:
        heard_at = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    heard_at = now
                elif now - heard_at > self.silence_max_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server was silent for {self.silence_max_s:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
