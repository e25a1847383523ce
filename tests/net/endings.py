"""Signals that ask a process for its end: what it has begun is undone first, and what must not be cut
in two is finished before.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_ORDINARY: dict[int, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
_waiting: list[int] = []  # signals that came while they were not to disturb
_depth = 0  # of undisturbed()


class Ended(KeyboardInterrupt):
    """A signal asks for the end. As little an Exception as Ctrl-C: nobody takes it for a failure."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind what is inside, as Ctrl-C does, and then take their ordinary course."""
    ours = [number for number, handler in _ORDINARY.items() if signal.getsignal(number) is handler]
    if not _in_main_thread():
        ours = []  # only the main thread is told of signals
    for number in ours:
        signal.signal(number, _arrived)
    ended = None
    try:
        yield
    except Ended as exception:
        ended = exception
        raise
    finally:
        for number in ours:
            signal.signal(number, _ORDINARY[number])
        if ended is not None and ended.number in ours:
            os.kill(os.getpid(), ended.number)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Within ended_by_signals(): signals wait until what is inside is done."""
    global _depth
    if not _in_main_thread():
        yield
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _waiting and _depth == 0:
            number = _waiting[0]
            _waiting.clear()
            _arrived(number, None)


def _arrived(number: int, _frame: FrameType | None) -> None:
    if _depth > 0:
        _waiting.append(number)
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise Ended(number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
