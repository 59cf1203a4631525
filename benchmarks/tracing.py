"""P4: what `%%jaxtrace` adds to the training step of a 12-layer transformer, first run and warm."""

import statistics
import time
from collections.abc import Iterable
from pathlib import Path

import jax
from IPython.core.interactiveshell import InteractiveShell
from rounds import Row

PROGRAM = Path(__file__).parent.parent / "tests" / "programs" / "flax_transformer.py"
FIRST_ROUNDS, WARM_ROUNDS = 3, 7
STEP = "loss = train_step(model, optimizer, tokens); jax.block_until_ready(loss)"


def rows(only: set[str]) -> Iterable[Row]:
    if only and "P4" not in only:
        return
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jaxmagic")
    first = statistics.median(_first(shell, "%%jaxtrace -q\n") / _first(shell, "") for _ in range(FIRST_ROUNDS))
    yield Row("P4", "12-layer transformer step, first run", "≤ 1.25 × plain", f"{first:.2f} ×", first <= 1.25)
    before = len(COMPILATIONS)
    warm = [(_timed(shell, STEP), _retrace(shell), _timed(shell, f"%%jaxtrace -q\n{STEP}")) for _ in range(WARM_ROUNDS)]
    plain, retrace, traced = map(statistics.median, zip(*warm, strict=True))
    extra = len(COMPILATIONS) - before
    # Within a round, so that a machine that is busy for a while is so for all three.
    retraces = statistics.median((with_magic - bare) / once for bare, once, with_magic in warm)
    yield Row(
        "P4",
        "the same, warm",
        "≤ plain + 1.5 retraces, 0 compilations",
        f"plain + {retraces:.2f} retraces ({traced:.2f} s; plain {plain * 1000:.1f} ms, one retrace {retrace:.2f} s), "
        f"{extra} compilations",
        retraces <= 1.5 and extra == 0,
    )


COMPILATIONS: list[str] = []


def _count(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event.endswith("backend_compile_duration"):
        COMPILATIONS.append(event)


jax.monitoring.register_event_duration_secs_listener(_count)


def _first(shell: InteractiveShell, magic: str) -> float:
    """Seconds of the first step after everything was defined anew and every cache emptied."""
    jax.clear_caches()
    _run(shell, PROGRAM.read_text().replace("layers=2", "layers=12").split("\nlosses =")[0])
    return _timed(shell, magic + STEP)


def _retrace(shell: InteractiveShell) -> float:
    """Seconds to trace the jitted step once more, without lowering or compiling it."""
    _run(shell, "again = nnx.jit(lambda *args: train_step.__wrapped__(*args))")
    return _timed(shell, "again.trace(model, optimizer, tokens);")


def _timed(shell: InteractiveShell, cell: str) -> float:
    began = time.perf_counter()
    _run(shell, cell)
    return time.perf_counter() - began


def _run(shell: InteractiveShell, cell: str) -> None:
    shell.run_cell(cell, store_history=False).raise_error()
