"""Signals of processes without an event loop."""

import os
import signal
import subprocess
import sys
import threading

from heliograph.processes.signals import on_signals


def test_a_signal_is_answered_though_the_main_thread_has_a_lock_that_the_answer_needs() -> None:
    """`threading.Event` has such a one, and a reader of stored messages that was ended waited for itself for ever."""
    lock, came = threading.Lock(), threading.Event()

    def answer() -> None:
        with lock:
            came.set()

    before = signal.getsignal(signal.SIGUSR1)
    try:
        on_signals({signal.SIGUSR1: answer})
        with lock:
            signal.raise_signal(signal.SIGUSR1)
        assert came.wait(60)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_a_main_thread_that_waits() -> None:
    program = """
import signal, threading
from heliograph.processes.signals import on_signals
ended = threading.Event()
on_signals({signal.SIGTERM: ended.set})
print("ready", flush=True)
ended.wait()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(60) == 0
