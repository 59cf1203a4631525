"""Functions that the tests of watching run: what is told is told of this file only."""

import asyncio
import io
import pdb
import sys


def double(x):
    y = x + x
    return y


def on_one_line(x): y = x + 1; return y  # noqa: E702 # fmt: skip


triple = lambda x: x * 3


def countdown(n):
    while n:
        answer = yield n
        n = n - 1 if answer is None else answer


def counting_on_one_line(n):
    for number in range(n): yield number  # noqa: E701, UP028 # fmt: skip


def rescued(x):
    try:
        x = int("no number")
    except ValueError:
        x = 0
    return x


def doomed():
    x = 1
    x = int("no number")
    return x


def factorial(n):
    if n < 2:
        return 1
    rest = factorial(n - 1)
    return n * rest


async def waiting(x):
    y = await asyncio.sleep(0, x)
    return y


def loop(n):
    last = 0
    for number in range(n):
        last = number
        last += 1
    return last


def found_late(n):
    found = 0
    for number in range(n):
        if number == 900:
            found = number
            found += 1
    return found


def rearming(n, rearm):
    value = 0
    for number in range(n):
        value = number if number != n - 2 else rearm()
    return value


def cell(begin, end):
    begin(sys._getframe())
    x = 1
    end()
    return x


def debugged(x, output):
    y = x + 1
    commands = io.StringIO("next\nnext\np z\ncontinue\n")
    pdb.Pdb(stdin=commands, stdout=output, nosigint=True, readrc=False).set_trace()
    z = y * 2
    return z
