"""Half precision: widened by an operand, rounding integers, beyond its range; integers of 8 bits that wrap."""

import jax
import numpy as np
import pytest
from observed_cells import watched

IMPORTS = "import jax, numpy as np, jax.numpy as jnp\n"

PROMOTED = [
    (
        "@jax.jit\ndef attend(q, k):\n    d = q.shape[-1]\n    return q @ k.T / np.sqrt(d)\n"
        "q = jnp.ones((4, 8), jnp.bfloat16)\nout = attend(q, q)",
        "q @ k.T / np.sqrt(d)",
        "q @ k.T / float(np.sqrt(d))",
    ),
    (
        "class Block:\n    def __init__(self, d):\n        self.scale = 1 / np.sqrt(d)\n"
        "    def __call__(self, x):\n        x = x * self.scale\n        return x\n"
        "out = jax.jit(Block(4).__call__)(jnp.ones(4, jnp.bfloat16))",
        "x * self.scale",
        "x * float(self.scale)",
    ),
    (
        "TABLE = np.linspace(0, 1, 3)\ndef step(carry, x):\n    return carry, x * TABLE\n"
        "_, out = jax.lax.scan(step, 0, jnp.ones((4, 3), jnp.bfloat16))",
        "x * TABLE",
        "x * jnp.asarray(TABLE, x.dtype)",
    ),
    (
        "def masked(x, mask):\n    return jnp.where(mask, x, jnp.finfo(jnp.float32).min)\n"
        "out = jax.jit(masked)(jnp.ones(3, jnp.bfloat16), jnp.array([True, False, True]))",
        "jnp.where(mask, x, jnp.finfo(jnp.float32).min)",
        "jnp.where(mask, x, jnp.finfo(x.dtype).min)",
    ),
    (
        "from flax import nnx\nclass Layer(nnx.Module):\n    def __init__(self, d, rngs):\n"
        "        self.linear = nnx.Linear(d, d, dtype=jnp.bfloat16, rngs=rngs)\n        self.d = d\n"
        "    def __call__(self, x):\n        h = self.linear(x)\n        h *= np.sqrt(self.d).astype(np.float32)\n"
        "        return h\nout = nnx.jit(Layer(4, nnx.Rngs(0)))(jnp.ones((2, 4)))",
        "h *= np.sqrt(self.d).astype(np.float32)",
        "h *= float(np.sqrt(self.d).astype(np.float32))",
    ),
    ("x = jnp.ones(3, jnp.float16)\nout = x - np.float32(0.5)", "x - np.float32(0.5)", "x - 0.5"),
    (
        "a, b = jnp.ones(3, jnp.bfloat16), jnp.ones(3, jnp.float16)\nout = a + b",
        "a + b",
        "a + b.astype(a.dtype)",
    ),
]

MAYBE = [
    (
        "def noisy(key, x):\n    return x + 0.1 * jax.random.normal(key, x.shape)\n"
        "out = jax.jit(jax.vmap(noisy, (None, 0)))(jax.random.key(0), jnp.ones((4, 3), jnp.bfloat16))",
        "x + 0.1 * jax.random.normal(key, x.shape)",
        "x + 0.1 * jax.random.normal(key, x.shape, dtype=x.dtype)",
    ),
    (
        "def placed(x):\n    wave = jnp.sin(jnp.arange(0.0, x.shape[0]))[:, None]\n    return x + wave\n"
        "out = jax.jit(jax.grad(lambda x: placed(x).sum()))(jnp.ones((4, 3), jnp.bfloat16))",
        "x + wave",
        "x + wave.astype(x.dtype)",
    ),
    ("x = jnp.ones(3, jnp.bfloat16)\nout = x * jnp.float32(2.0)", "x * jnp.float32(2.0)", "x * 2.0"),
]


@pytest.mark.parametrize(("body", "marked", "fix"), PROMOTED)
def test_half_precision_that_an_operand_widens_is_found(body: str, marked: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["promoted"]
    found = cell.found("promoted")
    assert (cell.marked("promoted"), found.fix, found.sure) == (marked, fix, True)
    fixed = cell.fixed("promoted")
    assert fixed.rules == []
    assert str(fixed.notebook.namespace["out"].dtype) in ("bfloat16", "float16")


@pytest.mark.parametrize(("body", "marked", "fix"), MAYBE)
def test_an_operand_that_jax_made_wide_may_be_meant(body: str, marked: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["promoted"]
    found = cell.found("promoted")
    assert (cell.marked("promoted"), found.fix, found.sure) == (marked, fix, False)
    fixed = cell.fixed("promoted")
    assert fixed.rules == []
    assert str(fixed.notebook.namespace["out"].dtype) == "bfloat16"


def test_double_precision_by_a_numpy_number_is_found():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        cell = watched(
            IMPORTS + "x = jnp.ones(3, jnp.float32)\nout = jax.jit(lambda x: x / np.sqrt(3))(x) + jnp.ones(3)"
        )
        assert cell.rules == ["promoted"]
        assert "is float64, not float32" in cell.found("promoted").title
        assert cell.fixed("promoted").rules == []


@pytest.mark.parametrize(
    "body",
    [
        "x = jnp.ones(3, jnp.bfloat16)\nout = x * 2.0 * np.pi + jnp.sqrt(3) + np.int64(2) + np.arange(3)",
        "x = jnp.ones(3, jnp.bfloat16)\nout = (x / np.sqrt(3)).astype(x.dtype)",
        "def norm(x):\n    y = x * np.float32(0.5)\n    return jnp.asarray(y, x.dtype)\n"
        "out = jax.jit(norm)(jnp.ones(3, jnp.bfloat16))",
        "def loss(w, x, y):\n    return ((x @ w - y) ** 2).mean()\n"
        "out = jax.jit(loss)(jnp.ones(3), jnp.ones((4, 3), jnp.bfloat16), np.ones(4))",
        "x = jnp.ones(3)\nout = x / np.sqrt(3)",
        "x = jnp.ones(3, jnp.bfloat16)\nout = x + np.asarray([1.0, 2.0, 3.0], dtype=jnp.bfloat16)",
    ],
)
def test_no_promotion_is_said_where_there_is_none_or_it_is_asked_for(body: str):
    assert "promoted" not in watched(IMPORTS + body).rules


ROUNDED = [
    ("out = jnp.arange(4096, dtype=jnp.bfloat16)", "257 becomes 256", "jnp.arange(4096, dtype=jnp.float32)"),
    (
        "class Rotary:\n    def angles(self, x):\n        return jnp.arange(x.shape[0]).astype(x.dtype)\n"
        "out = jax.jit(Rotary().angles)(jnp.ones((1000, 4), jnp.bfloat16))",
        "257 becomes 256",
        "jnp.arange(x.shape[0]).astype(jnp.float32)",
    ),
    (
        "ids = jnp.array([2048, 2049])\nout = jax.jit(jnp.asarray)(ids.astype('float16'))",
        "2,049 becomes 2,048",
        "ids.astype(jnp.float32)",
    ),
    (
        "ids = jnp.array([16_777_216, 16_777_217])\nout = ids.astype(jnp.float32)",
        "16,777,217 becomes 16,777,216",
        "ids.astype(jnp.int32)",
    ),
]


@pytest.mark.parametrize(("body", "title", "fix"), ROUNDED)
def test_integers_that_a_type_makes_the_same_are_found(body: str, title: str, fix: str):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["integers-rounded"]
    found = cell.found("integers-rounded")
    assert (found.title[: len(title)], found.fix) == (title, fix)
    fixed = cell.fixed("integers-rounded")
    assert fixed.rules == []
    values = np.asarray(fixed.notebook.namespace["out"])
    assert len(np.unique(values)) == len(values)


@pytest.mark.parametrize(
    "body",
    [
        "out = jnp.arange(256, dtype=jnp.bfloat16), jnp.arange(2048.0, dtype=jnp.float16)",
        "x = jnp.array([512, 1024])\nout = x.astype(jnp.bfloat16)",
        "count = jnp.array(16_777_217)\nout = count.astype(jnp.float32)",
    ],
)
def test_integers_that_stay_apart_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []


OVERFLOWN = [
    ("x = jnp.full(3, 300, jnp.float16)\nout = x * x", "x.astype(jnp.float32) * x"),
    ("x = jnp.full(3, 300, jnp.float16)\nout = 1000.0 * x", "1000.0 * x.astype(jnp.float32)"),
    ("out = jnp.sum(jnp.ones(100_000, jnp.float16))", "jnp.sum(jnp.ones(100000, jnp.float16), dtype=jnp.float32)"),
    ("x = jnp.full(3, 300, jnp.float16)\nout = jnp.linalg.norm(x**2)", "jnp.linalg.norm(x.astype(jnp.float32) ** 2)"),
]


@pytest.mark.parametrize(("body", "fix"), OVERFLOWN)
def test_an_infinity_that_float16_gives_is_found(body: str, fix: str):
    cell = watched(IMPORTS + body + "\njax.block_until_ready(out)")
    assert cell.rules == ["half-overflow"]
    assert cell.found("half-overflow").fix == fix
    fixed = cell.fixed("half-overflow")
    assert fixed.rules == []
    assert np.isfinite(np.asarray(fixed.notebook.namespace["out"])).all()


@pytest.mark.parametrize(
    "body",
    [
        "x = jnp.full(3, 300, jnp.float16)\nout = jnp.where(x > 1, -jnp.inf, x)",
        "x = jnp.zeros(3, jnp.float16)\nout = 1 / x\nlogs = jnp.log(x)",
        "x = jnp.full(3, jnp.inf, jnp.float16)\nout = x * 2",
        "x = jnp.full(3, 300, jnp.bfloat16)\nout = x * x",
    ],
)
def test_infinities_of_another_origin_are_not_put_down_to_float16(body: str):
    assert "half-overflow" not in watched(IMPORTS + body + "\njax.block_until_ready(out)").rules


WRAPPED = [
    ("img = jnp.asarray(np.full((2, 2), 200, np.uint8))\nout = img + 100", "img.astype(jnp.int32) + 100", 300),
    (
        "@jax.jit\ndef difference(a, b):\n    return a - b\n"
        "out = difference(jnp.array([10], jnp.uint8), jnp.array([20], jnp.uint8))",
        "a.astype(jnp.int32) - b",
        -10,
    ),
    ("q = jnp.array([100, 100], jnp.int8)\nout = q @ q", "q.astype(jnp.int32) @ q", 20_000),
    (
        "class Quantized:\n    def __call__(self, w):\n        return 2 * w\n"
        "w = jnp.array([100], jnp.int8)\nout = Quantized().__call__(w)",
        "2 * w.astype(jnp.int32)",
        200,
    ),
    (
        "def factorial(n):\n    return jax.lax.fori_loop(1, n + 1, lambda i, product: product * i, 1)\n"
        "out = factorial(20)",
        "jnp.float32(product) * i",
        2432902008176640000,
    ),
]


@pytest.mark.parametrize(("body", "fix", "exactly"), WRAPPED)
def test_integers_that_wrap_are_found_in_images_weights_and_loops(body: str, fix: str, exactly: int):
    cell = watched(IMPORTS + body)
    assert cell.rules == ["integer-overflow"]
    found = cell.found("integer-overflow")
    assert found.fix == fix
    assert f"exactly it is {exactly:,}" in found.title
    fixed = cell.fixed("integer-overflow")
    assert fixed.rules == []
    assert np.ravel(fixed.notebook.namespace["out"])[0] == pytest.approx(exactly, rel=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "img = jnp.asarray(np.full(3, 200, np.uint8))\nout = img // 2 + 100, img / 255, img.astype(jnp.int32) - 255",
        "q = jnp.array([100, 100], jnp.int8)\nout = q.sum(), jnp.dot(q, q, preferred_element_type=jnp.int32)",
        "out = jax.lax.fori_loop(0, 100, lambda i, total: total + i, 0)",
        "def step(code, letter):\n    return (code * 31 + letter) % 1009, code\n"
        "out = jax.lax.scan(step, 7, jnp.arange(100))",
    ],
)
def test_integers_that_stay_within_their_type_are_left_alone(body: str):
    assert watched(IMPORTS + body).rules == []
