"""What may go wrong while values are on their way: no hang, no crash, nothing of the user's lost."""

import re
import time
from collections.abc import Iterator

import msgspec
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from kernels import Kernel, Outputs, running_kernel

from jaxmagic.fit import unpack
from jaxmagic.records import Payload, Report
from jaxmagic.show import REPORT_MIME

PROGRAM = """\
import jax, jax.numpy as jnp, numpy as np, time
@jax.jit
def count(n):
    def body(i, total):
        new = total + 1.0
        return new
    return jax.lax.fori_loop(0, n, body, 0.0)
count(3)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        kernel.run("%load_ext jaxmagic")
        kernel.run(PROGRAM)
        yield kernel


@pytest.fixture(autouse=True)
def still_healthy(kernel: Kernel) -> Iterator[None]:
    """After each test the kernel computes, taps, and prints as before."""
    yield
    assert printed(kernel, "print(float(count(5)))") == "5.0"
    assert kernel.run("%%jaxtap -q -o after new\ncount(5);").status == "ok"
    assert printed(kernel, "print(after['new'].total)") == "5"


def report_of(outputs: Outputs) -> Report:
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    return unpack(msgspec.convert(shown[REPORT_MIME], Payload))


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def printed(kernel: Kernel, code: str) -> str:
    outputs = kernel.run(code)
    assert outputs.status == "ok", outputs.traceback
    return outputs.stdout.strip()


def test_an_exception_between_two_loops_keeps_what_came(kernel: Kernel):
    outputs = kernel.run("%%jaxtap new -o t\nfirst = count(4)\nraise ValueError('in between')\ncount(4)")
    assert outputs.error == "ValueError: in between"
    report = report_of(outputs)
    assert (report.state, report.failure is not None) == ("failed", True)
    assert printed(kernel, "print(t['new'].values, first)") == "[1. 2. 3. 4.] 4.0"


def test_a_callback_of_the_users_that_raises_in_the_middle_of_a_loop_ends_the_cell(kernel: Kernel):
    kernel.run("""\
def check(x):
    if x > 2.5:
        raise ValueError(f"too large: {x}")
@jax.jit
def watch(n):
    def body(i, total):
        new = total + 1.0
        jax.debug.callback(check, new, ordered=True)
        return new
    return jax.lax.fori_loop(0, n, body, 0.0)
""")
    outputs = kernel.run("%%jaxtap new -o t\njax.block_until_ready(watch(10))")
    assert "too large: 3.0" in str(outputs.error)
    report = report_of(outputs)
    assert report.state == "failed"
    assert printed(kernel, "print(t['new'].values)") == "[1. 2.]"  # those of the third step follow the failed callback
    kernel.run("jax.effects_barrier()")  # JAX itself reports the failure once more here


def test_an_interrupt_in_the_middle_of_a_loop_keeps_what_came(kernel: Kernel):
    interrupted: list[float] = []

    def look(outputs: Outputs) -> None:
        if outputs.news and not interrupted:
            interrupted.append(time.monotonic())
            kernel.interrupt()

    outputs = kernel.run("%%jaxtap new -o t\njax.block_until_ready(count(50_000_000));", look)
    assert time.monotonic() - interrupted[0] < 20
    assert str(outputs.error).startswith("KeyboardInterrupt")
    assert report_of(outputs).state == "interrupted"
    assert int(printed(kernel, "print(t['new'].total)")) > 0


def test_a_full_disk_is_a_line_in_the_limits(kernel: Kernel):
    outputs = kernel.run("%%jaxtap new -o t --to /dev/full\nresult = count(4)")
    assert outputs.status == "ok"
    (line,) = [line for line in report_of(outputs).limits if "--to" in line]
    assert "/dev/full" in line
    assert "No space left on device" in line
    assert printed(kernel, "print(t['new'].total, result)") == "4 4.0"


def test_a_host_function_that_raises_is_an_error_at_the_users_line(kernel: Kernel):
    kernel.run("def host(x):\n    return {}[float(x)]")
    outputs = kernel.run("%%jaxtap new --call host -o t\nbefore = 'assigned'\nresult = count(4)")
    assert str(outputs.error).startswith("KeyError: 1.0")
    report = report_of(outputs)
    assert report.state == "failed"
    assert report.failure is not None
    assert "return {}[float(x)]" in plain(outputs.traceback)
    assert printed(kernel, "print(before, 'result' in dir())") == "assigned True"


def test_a_host_function_of_the_wrong_shape_is_named(kernel: Kernel):
    kernel.run("def host(x):\n    return np.ones(3)")
    outputs = kernel.run("%%jaxtap new --call host\ncount(4)")
    assert "BadReturn: the host function returned shape (3,) for new f32[]* at line 5 of body(), not ()" in str(
        outputs.error
    )


def test_taps_and_callbacks_of_the_users_go_together(kernel: Kernel):
    kernel.run("""\
mine = []
@jax.jit
def both(xs):
    def step(total, x):
        total = total + x
        jax.debug.callback(lambda t: mine.append(float(t)), total, ordered=True)
        jax.debug.print("total {}", total, ordered=True)
        return total, jax.pure_callback(lambda t: np.asarray(t) * 2, total, total)
    return jax.lax.scan(step, 0.0, xs)
""")
    outputs = kernel.run("%%jaxtap step.total -o t\ntotal, doubled = both(jnp.arange(4.0))")
    assert outputs.status == "ok", outputs.traceback
    assert [line for line in outputs.stdout.splitlines() if line] == [f"total {x}" for x in (0.0, 1.0, 3.0, 6.0)]
    (series,) = report_of(outputs).taps[-1:]
    assert [event.value for event in series.events] == [0.0, 1.0, 3.0, 6.0]
    assert printed(kernel, "print(mine, doubled)") == "[0.0, 1.0, 3.0, 6.0] [ 0.  2.  6. 12.]"


def test_a_front_end_that_has_gone_holds_nothing_up(kernel: Kernel):
    other = BlockingKernelClient(connection_file=kernel.manager.connection_file)
    other.load_connection_file()
    other.start_channels()
    other.wait_for_ready(timeout=60)
    other.execute("%%jaxtap new -o t\nresult = count(20_000)")
    other.stop_channels()
    assert printed(kernel, "print(t['new'].total, result)") == "20000 20000.0"


@pytest.mark.one_pair
def test_a_million_events_come_in_bounded_memory(kernel: Kernel):
    outputs = kernel.run("%%jaxtap new -o t\nresult = jax.block_until_ready(count(1_000_000))")
    assert outputs.status == "ok", outputs.traceback
    assert printed(kernel, "print(t['new'].total, float(t['new'].values[-1]), result)") == ("1000000 1000000.0 1e+06")
    report = report_of(outputs)
    assert report.taps[0].total == 1_000_000
    assert len(msgspec.json.encode(report)) < 2**22
