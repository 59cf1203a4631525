"""Runs every program of the corpus with and without taps and tells how far the results are apart.

`python -m tests.core.identity_corpus` prints the table in `docs/identity.md`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.core.corpus import discrete, layers, losses, numerics
from tests.core.tapping import tap

FAMILIES = {"layers": layers, "losses and optimizers": losses, "numerics": numerics, "discrete": discrete}
TOLERANCE = {"float64": 1e-15, "float32": 4e-7, "bfloat16": 2**-7}
"""Largest difference allowed, relative to the output's largest element: a unit or two in the last place."""

TRANSPORTS: dict[str, dict[str, Any]] = {
    "values": {"keep": "values"},
    "guard": {"when": "nan"},
    "statistics": {"large": 1},
    "gradients": {"grad": True},
}
_COMPILES_SLOWLY = 4
"""Statistics are tried on every so many programs: the reductions of all values take XLA a second to compile."""

HALF = [layers.dense, layers.mlp, layers.layer_norm, layers.softmax, layers.attention, layers.gru, layers.rnn]
HALF += [layers.convolution_2d, losses.mean_squared_error, losses.cross_entropy, losses.gradient_of_mlp]
HALF += [numerics.polynomial, numerics.heat_equation, numerics.runge_kutta, discrete.sorting, discrete.thresholds]
DOUBLE = [numerics.cholesky_solve, numerics.fft, numerics.runge_kutta, numerics.newton, numerics.power_iteration]
DOUBLE += [numerics.matrix_exponential, losses.gradient_of_mlp, losses.hessian_of_quadratic, layers.gru]
DOUBLE += [layers.softmax, discrete.metropolis, numerics.logistic_map]


class Case(NamedTuple):
    family: str
    program: Callable[[jax.Array], Any]
    dtype: str

    def __str__(self) -> str:
        return f"{self.program.__name__} {self.dtype}"


@cache
def cases() -> tuple[Case, ...]:
    found = [Case(family, program, "float32") for family, module in FAMILIES.items() for program in module.PROGRAMS]
    found += [Case("in half precision", program, "bfloat16") for program in HALF]
    return (*found, *(Case("in double precision", program, "float64") for program in DOUBLE))


class Difference(NamedTuple):
    """How far a tapped run is from the plain one."""

    identical: bool
    relative: float
    """Largest difference of a floating-point output, relative to its largest element."""


def compare(case: Case, transports: Sequence[str] = ()) -> dict[str, Difference]:
    """The difference under transports, or under each that says something of the program.

    Raises:
        AssertionError: a tapped run failed, or an output that is not floating point differs at all.
    """
    with _precision(case.dtype):
        # float64 random numbers do not depend on what else is enabled, so that each case is the same every time.
        x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)), case.dtype)
        plain = jax.block_until_ready(jax.jit(case.program)(x))
        return {
            name: _difference(plain, _tapped(case, x, TRANSPORTS[name])) for name in transports or transports_of(case)
        }


def transports_of(case: Case) -> list[str]:
    slow = ["statistics"] if cases().index(case) % _COMPILES_SLOWLY == 0 else []
    differentiated = ["gradients"] if "grad" in case.program.__code__.co_names else []
    return ["values", "guard", *slow, *differentiated]


def _tapped(case: Case, x: jax.Array, how: dict[str, Any]) -> Any:
    tapped = tap("", jax.jit(case.program), x, **how)
    assert tapped.error is None, f"{case}: {tapped.error}"
    return tapped.result


@contextmanager
def _precision(dtype: str) -> Iterator[None]:
    jax.config.update("jax_enable_x64", dtype == "float64")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def _difference(plain: Any, tapped: Any) -> Difference:
    pairs = [tuple(map(_data, pair)) for pair in zip(jax.tree.leaves(plain), jax.tree.leaves(tapped), strict=True)]
    identical = all(left.tobytes() == right.tobytes() for left, right in pairs)
    return Difference(identical, max((_relative(*pair) for pair in pairs), default=0.0))


def _data(leaf: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def _relative(left: np.ndarray, right: np.ndarray) -> float:
    if not jnp.issubdtype(left.dtype, jnp.inexact):
        assert left.tobytes() == right.tobytes(), "an output that is not floating point differs"
        return 0.0
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    left, right = left.astype(wide), right.astype(wide)
    return float(np.max(np.abs(left - right), initial=0) / max(np.max(np.abs(left), initial=0), 1e-300))


def table() -> str:
    """A Markdown table: programs that are bitwise equal under each transport, and the largest difference."""
    rows: dict[str, list[dict[str, Difference]]] = {}
    for case in cases():
        rows.setdefault(case.family, []).append(compare(case))
    lines = ["| family | programs | " + " | ".join(TRANSPORTS) + " |", "|---" * (2 + len(TRANSPORTS)) + "|"]
    for family, found in rows.items():
        cells = [_cell([each[name] for each in found if name in each]) for name in TRANSPORTS]
        lines.append(f"| {family} | {len(found)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(found: list[Difference]) -> str:
    if not found:
        return ""
    equal = sum(difference.identical for difference in found)
    worst = max(difference.relative for difference in found)
    return f"{equal} of {len(found)} equal" + (f", else ≤ {worst:.1e}" if equal < len(found) else "")


if __name__ == "__main__":
    print(table())
