"""Integers beyond 32 bits, data of 64 bits from NumPy, and types that are asked for in vain."""

import pytest
from observed_cells import watched

IMPORTS = "import jax, numpy as np, jax.numpy as jnp\n"

OVERFLOWS = [
    ("out = jnp.arange(100_000).sum()", "jnp.arange(100_000).sum()", "4,999,950,000", 4_999_950_000),
    ("n = 16\nout = jnp.prod(jnp.arange(1, n))", "jnp.prod(jnp.arange(1, n))", "1,307,674,368,000", 1.307674368e12),
    (
        "@jax.jit\ndef area(w, h):\n    return w * h\nw = jnp.array([70_000, 2])\nh = jnp.array([80_000, 3])\n"
        "out = area(w, h).max()",
        "w * h",
        "5,600,000,000",
        5.6e9,
    ),
    (
        "class Counter:\n    def total(self, counts):\n        return jnp.cumsum(counts)\n"
        "counts = jnp.full(3, 1_500_000_000)\nout = Counter().total(counts)[-1]",
        "jnp.cumsum(counts)",
        "4,500,000,000",
        4.5e9,
    ),
]


@pytest.mark.parametrize(("body", "marked", "exactly", "right"), OVERFLOWS)
def test_an_integer_result_beyond_32_bits_is_found(body: str, marked: str, exactly: str, right: float):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["integer-overflow"]
    assert cell.marked("integer-overflow") == marked
    assert exactly in cell.found("integer-overflow").title
    fixed = cell.fixed("integer-overflow")
    assert fixed.rules == []
    assert float(fixed.notebook.namespace["out"]) == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "out = jnp.arange(1000).sum(), jnp.prod(jnp.arange(1, 12))",
        "out = np.arange(100_000).sum()",
        "x = jnp.uint32(2654435761)\nout = x * jnp.uint32(40503)",
        "out = jnp.arange(100_000.0).sum()",
        "out = jnp.sum(jnp.arange(100_000), dtype=jnp.float32)",
    ],
)
def test_sums_that_fit_or_may_wrap_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


TRUNCATED = [
    ("out = jnp.asarray(np.array([2**32 + 5]))", "4,294,967,301 in `np.array([2**32 + 5])` becomes 5"),
    (
        "stamps = np.array([1_700_000_000_000])\n@jax.jit\ndef first(t):\n    return t[0]\nout = first(stamps)",
        "1,700,000,000,000 in `stamps` becomes",
    ),
    ("ids = np.arange(3) + 2**40\nout = jnp.unique(ids)", "1,099,511,627,778 in `ids` becomes 2"),
]


@pytest.mark.parametrize(("body", "title"), TRUNCATED)
def test_integers_of_numpy_that_lose_their_high_bits_are_found(body: str, title: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["integer-truncated"]
    assert title in cell.found("integer-truncated").title


def test_double_precision_data_is_worth_a_note_once():
    cell = watched(
        IMPORTS + "x = np.array([1.0, 1e-9])\ny = np.ones(3)\na = jnp.asarray(x).sum()\nb = jax.jit(lambda v: v)(y)\n"
        "f = jax.jit(jnp.sum)\nc = f(y)"
    )
    assert cell.rules == ["float64-truncated"]
    found = cell.found("float64-truncated")
    assert (found.severity, cell.marked("float64-truncated")) == ("note", "jnp.asarray(x)")
    assert "`x`, `y`" in found.title


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("call", ["jnp.zeros(1, dtype='float64')", "jnp.ones(2, dtype=jnp.int64)"])
def test_a_type_that_is_asked_for_in_vain_is_found(call: str):
    cell = watched(IMPORTS + f"out = {call}")
    assert cell.rules == ["float64-requested"]
    assert cell.marked("float64-requested") == call
