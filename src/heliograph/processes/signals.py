"""What a process without an event loop does at a signal."""

import os
import signal
import threading
from collections.abc import Callable, Mapping


def on_signals(actions: Mapping[int, Callable[[], object]]) -> None:
    """Call functions when signals come, one after the other in a thread; called by the main thread.

    Python calls the handler of a signal between two instructions of the main thread, which may hold the lock that the
    handler wants: `threading.Event.set` waits for ever where the main thread has just begun `Event.wait`.
    """
    reading, writing = os.pipe()

    def note(number: int, _: object) -> None:
        os.write(writing, bytes((number,)))

    def call() -> None:
        while True:
            for number in os.read(reading, 64):
                actions[number]()

    threading.Thread(target=call, name="signals", daemon=True).start()
    for number in actions:
        signal.signal(number, note)
