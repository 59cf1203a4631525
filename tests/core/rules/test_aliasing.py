"""Writes into NumPy arrays that JAX arrays lie in. Memory is aligned by hand: whether JAX copies depends on it."""

import pytest
from observed_cells import watched

IMPORTS = """import jax, numpy as np, jax.numpy as jnp

def aligned(n):
    raw = np.ones(n + 64, np.float32)
    start = (-raw.ctypes.data // 4) % 16
    return raw[start:start + n]

"""

SHARED = [
    ("buf = aligned(100)\nx = jax.device_put(buf)\nbuf[:] = 99\nout = float(x[0])", "buf[:] = 99"),
    (
        "def load(pages):\n    seen = []\n    page = aligned(100)\n    for number in pages:\n"
        "        page.fill(number)\n        batch = jnp.from_dlpack(page)\n        seen.append(batch)\n"
        "    return float(seen[0][0])\nout = load([1.0, 2.0])",
        "page.fill(number)",
    ),
    (
        "class Loader:\n    def __init__(self):\n        store = aligned(64)\n        self.x = jax.device_put(store)\n"
        "        store += 5\nout = float(Loader().x[0])",
        "store += 5",
    ),
    (
        "ways = [jnp.array, jax.device_put]\nfor way in ways:\n    buf = aligned(100)\n    x = way(buf)\n"
        "    np.copyto(buf, 7.0)\nout = float(x[0])",
        "np.copyto(buf, 7.0)",
    ),
    (
        "for way in (jnp.array, jax.device_put):\n    buf = aligned(100); buf[:] = 1\n    x = way(buf); buf[:] = 99\n"
        "out = float(x[0])",
        "buf[:] = 99",
    ),
]


@pytest.mark.parametrize(("body", "marked"), SHARED)
def test_a_write_into_shared_memory_is_found_and_a_copy_is_the_fix(body: str, marked: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["numpy-aliased"]
    assert cell.marked("numpy-aliased") == marked
    fixed = cell.fixed("numpy-aliased")
    assert fixed.rules == []
    assert fixed.notebook.namespace["out"] == 1.0


def test_a_write_in_a_later_cell_is_found():
    cell = watched(IMPORTS + "buf = aligned(100)\nx = jax.device_put(buf)", "buf[0] = 5.0")
    assert cell.rules == ["numpy-aliased"]
    assert "`x`" in cell.found("numpy-aliased").title


@pytest.mark.parametrize(
    "body",
    [
        "buf = aligned(100)\nx = jnp.array(buf)\nbuf[:] = 2",
        "buf = aligned(100)\nbuf[:] = 2\nx = jax.device_put(buf)",
        "buf = aligned(100)\nx = jax.device_put(buf.copy())\nbuf[:] = 2",
        "buf = aligned(100)\nx = jax.jit(lambda v: v)(buf)\nbuf[:] = 2",
    ],
)
def test_copies_and_earlier_writes_are_harmless(body: str):
    assert watched(IMPORTS + body).rules == []
