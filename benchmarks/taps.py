"""P1, P2, P3, P6: what a tapped value costs, beside a hand-written `jax.debug.callback` and beside jax-tap.

jax-tap is wanted by this benchmark only: `pip install jax-tap` adds its row.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from rounds import Row, print_table, ratio, seconds

from jaxmagic.core.limits import Limits
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.taps.taps import TapOptions, Taps

FEW, MANY, VERY_MANY = 1_000, 10_000, 300_000
X = jnp.ones(200)
EIGHT = ("a", "b", "d", "e", "g", "h", "k", "y")

Step = Callable[..., tuple]


def one(c, _):
    y = jnp.sin(c) * 1.1
    return y, None


def eight(c, _):
    a = jnp.sin(c) * 1.1
    b = a * 2
    d = jnp.cos(b)
    e = d + a
    g = e * 1.01
    h = jnp.tanh(g)
    k = h - a
    y = k * 0.5
    return y, None


def one_by_hand(c, _):
    y = jnp.sin(c) * 1.1
    jax.debug.callback(_ignore, y)
    return y, None


def eight_by_hand(c, _):
    values = _eight_of(c)
    for value in values:
        jax.debug.callback(_ignore, value)
    return values[-1], None


def eight_made(values, _):
    """Each of the eight in an array of its own, as whatever reads them needs it; only the last step's are kept."""
    return lax.optimization_barrier(_eight_of(values[-1])), None


def _eight_of(c):
    """What `eight` computes, whose own lines have to be tapped."""
    a = jnp.sin(c) * 1.1
    b = a * 2
    d = jnp.cos(b)
    e = d + a
    g = e * 1.01
    h = jnp.tanh(g)
    k = h - a
    y = k * 0.5
    return a, b, d, e, g, h, k, y


def _ignore(value: object) -> None:
    """A consumer that costs nothing."""


def rows(only: set[str]) -> Iterable[Row]:
    for number, measure in (("P1", _one_value), ("P2", _eight_values), ("P3", _lanes), ("P6", _guard)):
        if not only or number in only:
            yield from measure()


def _one_value() -> Iterator[Row]:
    plain = _microseconds(_scan(one, VERY_MANY), VERY_MANY)
    by_hand = _microseconds(_scan(one_by_hand, FEW), FEW)
    tapped, ring = _tapped(one, ("one.y",), MANY), _tapped(one, ("one.y",), VERY_MANY, ring=True)
    what = "each step of a scan tapped, 200 floats"
    yield _faster("P1", f"{what}, against jax.debug.callback", by_hand, tapped, 12, plain)
    yield _faster("P1", f"{what}, ring, against jax.debug.callback", by_hand, ring, 300, plain)
    if importlib.util.find_spec("jaxtap"):
        yield _faster("P1", f"{what}, against jax-tap", _jax_tap(), tapped, 20, plain)


def _eight_values() -> Iterator[Row]:
    plain = _microseconds(_scan(eight, VERY_MANY), VERY_MANY)
    by_hand = _microseconds(_scan(eight_by_hand, FEW // 5), FEW // 5)
    names = tuple(f"eight.{name}" for name in EIGHT)
    tapped, ring = _tapped(eight, names, MANY), _tapped(eight, names, VERY_MANY, ring=True)
    yield _faster("P2", "8 values of 200 floats per step, against 8 jax.debug.callbacks", by_hand, tapped, 80, plain)
    # What limits it: untapped, XLA makes one loop of all eight and keeps none of them in memory.
    made = _microseconds(lambda x: lax.scan(eight_made, (x,) * 8, None, length=VERY_MANY)[0], VERY_MANY)
    row = _faster("P2", "the same, ring", by_hand, ring, 1000, plain)
    limit = f"; untapped is 1/{by_hand / plain:.0f}, and with each value in an array of its own 1/{by_hand / made:.0f}"
    yield replace(row, measured=row.measured + limit)


def _lanes() -> Iterator[Row]:
    """Run and compile seconds of 256 lanes, over those of one."""
    runs, compiles = {}, {}
    for lanes in (1, 256):
        xs = jnp.ones(lanes)
        function = jax.jit(jax.vmap(_scan(one, 2_000)))
        with _taps(("one.y",)):
            compiles[lanes] = seconds(partial(_run, function, xs), 1)
            runs[lanes] = seconds(partial(_run, function, xs), 9)
    for what, found in (("run", runs), ("trace and compile", compiles)):
        times = found[256] / found[1]
        yield Row("P3", f"256 vmapped lanes tapped, over one lane: {what}", "≤ 1.5 ×", f"{times:.2f} ×", times <= 1.5)


def _guard() -> Iterator[Row]:
    """A training step of a millisecond or more, guarded against NaN."""

    def loss(weights, x):
        h = x
        for w in weights:
            h = jnp.tanh(h @ w)
        return (h**2).mean()

    def train(weights, x):
        value, gradient = jax.value_and_grad(loss)(weights, x)
        return [w - 0.01 * g for w, g in zip(weights, gradient, strict=True)], value

    weights, x = [jnp.eye(512)] * 4, jnp.ones((256, 512))
    plain, guarded = jax.jit(train), jax.jit(lambda *arguments: train(*arguments))
    compiled = plain.lower(weights, x).compile()
    with _taps(("train.value",), when="nan"):
        _run(guarded, weights, x)
        found = ratio(partial(_run, guarded, weights, x), partial(_run, compiled, weights, x), 51)
    yield Row("P6", "`--when nan` on a training step", "≤ 1.03 ×", f"{found:.3f} ×", found <= 1.03)


def _jax_tap() -> float:
    jaxtap = importlib.import_module("jaxtap")

    tapped = jaxtap.verbose(_scan(one, FEW), on_step=_ignore)
    return _microseconds(jax.jit(tapped), FEW)


def _faster(number: str, what: str, theirs: float, ours: float, wanted: float, plain: float) -> Row:
    times = theirs / ours
    measured = f"1/{times:.0f}: {ours:.2f} µs against {theirs:.1f} µs a step ({plain:.2f} µs untapped)"
    return Row(number, what, f"≤ 1/{wanted:.0f}", measured, times >= wanted)


def _scan(step: Step, length: int) -> Callable[[jax.Array], jax.Array]:
    return lambda x: lax.scan(step, x, None, length=length)[0]


def _tapped(step: Step, names: tuple[str, ...], length: int, **options: Any) -> float:
    with _taps(names, **options):
        return _microseconds(_scan(step, length), length)


@contextmanager
def _taps(names: tuple[str, ...], **options: Any) -> Iterator[Taps]:
    taps = Taps(names, TapOptions(**options), Policy(files=(__file__,)), Limits())
    taps.start()
    try:
        yield taps
    finally:
        taps.stop()


def _microseconds(function: Callable[[jax.Array], Any], steps: int) -> float:
    """Median wall microseconds of a step, compiled."""
    jitted = jax.jit(function)
    _run(jitted, X)
    return seconds(partial(_run, jitted, X), 9) / steps * 1e6


def _run(function: Callable[..., Any], *arguments: Any) -> None:
    jax.block_until_ready(function(*arguments))
    jax.effects_barrier()


if __name__ == "__main__":
    print_table(list(rows(set())))
