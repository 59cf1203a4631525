"""What watching the user's lines costs a loop of plain Python."""

import sys
import time
from collections.abc import Callable

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import watch
from jaxmagic.core.lines.record import LineRecord
from jaxmagic.core.source.policy import Policy


def sum_of_squares(iterations: int) -> int:
    """A loop with an assignment and a branch in it."""
    total = 0
    for number in range(iterations):
        square = number * number
        if square % 7 == 3:
            total -= 1
        total += square
    return total


def sum_of_calls(iterations: int) -> int:
    """The same, with a function of the user's called in each iteration."""
    total = 0
    for number in range(iterations):
        total += _square(number)
    return total


def _square(number: int) -> int:
    return number * number


def watched_ratio(loop: Callable[[int], int], iterations: int = 10_000_000, repeats: int = 3) -> float:
    """Best processor time of `loop` with its lines recorded, over its best without, in one process."""
    plain, watched = [], []
    for _ in range(repeats):
        plain.append(_seconds(loop, iterations))
        limits, policy = Limits(), Policy(files=(__file__,))
        watcher = watch(LineRecord(policy, limits), policy.is_user, limits)
        watcher.start(sys._getframe())
        try:
            watched.append(_seconds(loop, iterations))
        finally:
            watcher.stop()
    return min(watched) / min(plain)


def _seconds(loop: Callable[[int], int], iterations: int) -> float:
    began = time.thread_time()
    loop(iterations)
    return time.thread_time() - began


if __name__ == "__main__":
    for loop in (sum_of_squares, sum_of_calls):
        print(f"{loop.__name__}: ×{watched_ratio(loop):.3f}")
