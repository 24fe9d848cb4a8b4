"""Handle signals in a thread: a handler interrupts the main thread, which may hold any lock."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Mapping


def on_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """Call an action for each signal. Does nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()  # the only queue that a signal handler may put into
    for number in actions:
        signal.signal(number, lambda number, _: asked.put(number))

    def act() -> None:
        while True:
            actions[signal.Signals(asked.get())]()

    threading.Thread(target=act, name="signals", daemon=True).start()
