"""Programs that give NaN or infinity, by kind: what is to be said of each. They leave their result in `out`."""

from typing import NamedTuple


class Program(NamedTuple):
    """One cell, or several."""

    kind: str
    cells: tuple[str, ...]
    rule: str
    marked: str
    """The expression that is blamed."""
    says: tuple[str, ...]
    """Words of the title and the evidence."""
    fix: str = ""
    """Part of the fix; empty where none is to be offered."""
    when: str = "nan"

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.marked}"


MODULE = """\
import equinox as eqx
class Net(eqx.Module):
    layer: eqx.nn.Linear
    def __call__(self, x):
        hidden = self.layer(x)
        return {body}
net = Net(eqx.nn.Linear(3, 3, use_bias=False, key=jax.random.key(0)))
"""

PROGRAMS = [
    # ------------------------------------------------------------------- softmax and logsumexp by hand
    Program(
        "softmax",
        (
            "def xent(logits, y):\n"
            "    p = jnp.exp(logits) / jnp.exp(logits).sum()\n"
            "    return -jnp.log(p[y])\n"
            "out = xent(jnp.array([100.0, 0.0]), 1), xent(jnp.array([100.0, 0.0]), 0)",
        ),
        "nan-made",
        "jnp.exp(logits)",
        ("overflows (exp(100))", "inf / inf is NaN", "`logits`: 100 there"),
        "return -jax.nn.log_softmax(logits)[y]",
    ),
    Program(
        "softmax",
        (
            "import flax.linen as nn\n"
            "class MLP(nn.Module):\n"
            "    @nn.compact\n"
            "    def __call__(self, x):\n"
            "        x = nn.Dense(4)(x)\n"
            "        e = jnp.exp(x)\n"
            "        return e / e.sum(-1, keepdims=True)\n"
            "x = 1000 * jnp.ones((2, 3))\n"
            "params = MLP().init(jax.random.key(0), jnp.ones((2, 3)))",
            "out = jax.jit(MLP().apply)(params, x)",
        ),
        "nan-made",
        "jnp.exp(x)",
        ("overflows", "2 of 8 elements"),
        "jax.nn.softmax(x, axis=-1)",
    ),
    Program(
        "softmax",
        (
            "class Attention:\n"
            "    def __init__(self, scale):\n"
            "        self.scale = scale\n"
            "    def weights(self, q, k):\n"
            "        scores = self.scale * (q @ k.T)\n"
            "        exponentials = jnp.exp(scores)\n"
            "        total = jnp.sum(exponentials, axis=1, keepdims=True)\n"
            "        return exponentials / total\n"
            "q = jnp.ones((3, 4))\n"
            "out = jax.jit(Attention(50.0).weights)(q, q)",
        ),
        "nan-made",
        "jnp.exp(scores)",
        ("exp(200)", "9 of 9 elements"),
        "jax.nn.softmax(scores, axis=1)",
    ),
    Program(
        "logsumexp",
        (
            "def free_energy(x):\n"
            "    return jnp.log(jnp.sum(jnp.exp(x), axis=-1)).sum()\n"
            "out = jax.grad(free_energy)(jnp.array([[1000.0, 0.0]]))",
        ),
        "nan-gradient",
        "jnp.exp(x)",
        ("the gradient is NaN", "exp(1000)"),
        "jax.nn.logsumexp(x, axis=-1)",
    ),
    Program(
        "sigmoid",
        ("def s(x):\n    return 1 / (1 + jnp.exp(-x))\nout = jax.jit(jax.grad(s))(-100.0)",),
        "nan-gradient",
        "jnp.exp(-x)",
        ("the gradient is NaN", "exp(100)"),
        "jax.nn.sigmoid(x)",
    ),
    Program(
        "softplus",
        ("out = jax.vmap(jax.grad(lambda x: jnp.log(1 + jnp.exp(x))))(jnp.array([1.0, 200.0]))",),
        "nan-gradient",
        "jnp.exp(x)",
        ("exp(200)", "lane 1 of 2"),
        "jax.nn.softplus(x)",
    ),
    Program(
        "softplus",
        (
            "@jax.jit\ndef soft(x):\n    return jnp.where(x > 80, x, jnp.log1p(jnp.exp(x)))\n"
            "out = jax.grad(soft)(100.0)",
        ),
        "nan-gradient",
        "jnp.exp(x)",
        ("a `where` throws that away",),
        "jax.nn.softplus(x)",
    ),
    Program(
        "softmax",
        (
            "@jax.jit\n"
            "def attention(q, mask):\n"
            "    scores = jnp.where(mask, q @ q.T, -jnp.inf)\n"
            "    e = jnp.exp(scores)\n"
            "    return e / e.sum(-1, keepdims=True)\n"
            "out = attention(jnp.ones((2, 3)), jnp.array([[True, False], [False, False]]))",
        ),
        "nan-made",
        "e / e.sum(-1, keepdims=True)",
        ("0 / 0 is NaN", "the first at [1, 0]"),
        "jax.nn.softmax(jnp.maximum(scores, jnp.finfo(jnp.float32).min), axis=-1)",
    ),
    Program(
        "logsumexp",
        (
            "@jax.jit\n"
            "def total(x, mask):\n"
            "    x = jnp.where(mask, x, -jnp.inf)\n"
            "    top = x.max(-1, keepdims=True)\n"
            "    return top + jnp.log(jnp.exp(x - top).sum(-1, keepdims=True))\n"
            "out = total(jnp.ones((2, 2)), jnp.array([[True, False], [False, False]]))",
        ),
        "nan-made",
        "x - top",
        ("-inf - -inf is NaN",),
        "jnp.finfo(jnp.float32).min",
    ),
    Program(
        "sigmoid",
        (
            "def loss(w, x):\n"
            "    p = jax.nn.sigmoid(x @ w)\n"
            "    return -jnp.log(1 - p).mean()\n"
            "out = jax.grad(loss)(jnp.full(3, 50.0), jnp.ones((2, 3)))",
        ),
        "nan-gradient",
        "jnp.log(1 - p)",
        ("is infinite at 0",),
        "jax.nn.log_sigmoid(-(x @ w))",
    ),
    # ----------------------------------------------------------------------------- gradients of a where
    Program(
        "where-gradient",
        (
            "def masked(x):\n"
            "    bad = jnp.log(x)\n"
            "    return jnp.where(x > 0, bad, 0.0).sum()\n"
            "out = jax.grad(masked)(jnp.array([0.0, 1.0]))",
        ),
        "nan-gradient",
        "jnp.log(x)",
        ("the derivative of `jnp.log(x)` is 0 / 0", "only gradients hold it"),
        "jnp.log(jnp.where(x > 0, x, 1))",
    ),
    Program(
        "where-gradient",
        ("out = jax.jit(jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()))(jnp.array([-1.0, 1.0]))",),
        "nan-gradient",
        "jnp.sqrt(x)",
        ("the square root of -1", "a `where` throws that away"),
        "jnp.sqrt(jnp.where(x > 0, x, 1))",
    ),
    Program(
        "where-gradient",
        (
            MODULE.format(body="jnp.where(hidden == 0, 0.0, hidden / jnp.abs(hidden)).sum()"),
            "out = eqx.filter_jit(eqx.filter_grad(lambda net, x: net(x)))(net, jnp.zeros(3)).layer.weight",
        ),
        "nan-gradient",
        "hidden / jnp.abs(hidden)",
        ("`where` throws that away",),
        "hidden / jnp.where(hidden == 0, 1, jnp.abs(hidden))",
    ),
    Program(
        "where-gradient",
        (
            "def potential(r):\n"
            "    inverse = 1 / r\n"
            "    return jnp.where(r > 0, inverse, 0.0)\n"
            "@jax.jit\n"
            "def total(rs):\n"
            "    return jax.lax.scan(lambda c, r: (c + potential(r).sum(), None), 0.0, rs)[0]\n"
            "out = jax.grad(total)(jnp.array([[1.0, 2.0], [0.0, 3.0], [4.0, 5.0]]))",
        ),
        "nan-gradient",
        "1 / r",
        ("the derivative of `1 / r`", "iteration 1 of the loop at line 7"),
        "1 / jnp.where(r > 0, r, 1)",
    ),
    # ------------------------------------------------------------------------- roots and norms at zero
    Program(
        "norm",
        ("out = jax.grad(jnp.linalg.norm)(jnp.zeros(3))",),
        "nan-gradient",
        "jax.grad(jnp.linalg.norm)(jnp.zeros(3))",
        ("is infinite at 0", "NaN from here: 0 * inf"),
        "jnp.sqrt(jnp.sum(x ** 2) + 1e-12)",
    ),
    Program(
        "norm",
        (
            "def distance(p, q):\n    return jnp.sqrt(jnp.sum((p - q) ** 2))\n"
            "out = jax.grad(distance)(jnp.ones(2), jnp.ones(2))",
        ),
        "nan-gradient",
        "jnp.sqrt(jnp.sum((p - q) ** 2))",
        ("is infinite at 0", "only gradients hold it"),
        "jnp.sqrt(jnp.sum((p - q) ** 2) + 1e-12)",
    ),
    Program(
        "norm",
        (
            MODULE.format(body="jnp.linalg.norm(hidden, axis=-1)"),
            "out = jax.vmap(jax.grad(net))(jnp.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))",
        ),
        "nan-gradient",
        "jnp.linalg.norm(hidden, axis=-1)",
        ("is infinite at 0", "lane 1 of 2"),
        "jnp.sqrt(jnp.sum(hidden ** 2, axis=-1) + 1e-12)",
    ),
    Program(
        "norm",
        (
            "@jax.jit\ndef unit(x):\n    length = jnp.linalg.norm(x, axis=-1, keepdims=True)\n    return x / length\n"
            "out = unit(jnp.array([[3.0, 4.0], [0.0, 0.0]]))",
        ),
        "nan-made",
        "x / length",
        ("0 / 0 is NaN", "2 of 4 elements, the first at [1, 0]"),
        "jnp.sqrt(jnp.sum(x ** 2, axis=-1, keepdims=True) + 1e-12)",
    ),
    Program(
        "sqrt",
        (
            "@jax.jit\n"
            "def walk(start):\n"
            "    def step(c, _):\n"
            "        c = c - 1.0\n"
            "        return c, jnp.sqrt(c)\n"
            "    return jax.lax.scan(step, start, None, length=6)\n"
            "out = jax.vmap(walk)(jnp.array([10.0, 3.0, 8.0]))",
        ),
        "nan-made",
        "jnp.sqrt(c)",
        ("the square root of -1 is NaN", "iteration 3 of the loop at line 7, lane 1 of 3"),
        "jnp.sqrt(jnp.maximum(c, 1e-12))",
    ),
    Program(
        "std",
        ("@jax.jit\ndef normalise(x):\n    return (x - x.mean()) / x.std()\nout = normalise(jnp.ones(5))",),
        "nan-made",
        "(x - x.mean()) / x.std()",
        ("0 / 0 is NaN", "`x.std()` = 0"),
        "jnp.sqrt(jnp.var(x) + 1e-6)",
    ),
    Program(
        "std",
        (
            "class BatchNorm:\n"
            "    def __call__(self, x):\n"
            "        sigma = jnp.std(x, axis=0)\n"
            "        return ((x - x.mean(0)) / (sigma + 1e-5)).sum()\n"
            "out = jax.grad(BatchNorm())(jnp.ones((4, 2)))",
        ),
        "nan-gradient",
        "jnp.std(x, axis=0)",
        ("is infinite at 0",),
        "jnp.sqrt(jnp.var(x, axis=0) + 1e-6)",
    ),
    # ----------------------------------------------------------------------------------- logarithms
    Program(
        "log",
        ("def nll(p):\n    return -jnp.log(p).sum()\nout = jax.jit(nll)(jnp.array([0.5, -0.1]))",),
        "nan-made",
        "jnp.log(p)",
        ("the logarithm of -0.1 is NaN", "`p`: -0.1 there"),
        "jnp.log(jnp.maximum(p, 1e-12))",
    ),
    Program(
        "log",
        ("def entropy(p):\n    return -(p * jnp.log(p)).sum()\nout = jax.jit(entropy)(jnp.array([0.0, 0.5, 0.5]))",),
        "nan-made",
        "jnp.log(p)",
        ("the logarithm of 0), and 0 * -inf is NaN",),
        "jax.scipy.special.xlogy(p, p)",
    ),
    Program(
        "log",
        (
            "class Dirichlet:\n"
            "    def entropy(self, p):\n"
            "        return -(jnp.log(p) * p).sum(-1)\n"
            "p = jnp.array([[0.0, 1.0], [0.5, 0.5]])",
            "out = jax.vmap(jax.grad(Dirichlet().entropy))(p)",
        ),
        "nan-made",
        "jnp.log(p)",
        ("the logarithm of 0",),
        "jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1)), 0.0)",
    ),
    Program(
        "log",
        (
            "def loss(w, x):\n"
            "    q = jax.nn.sigmoid(x * w)\n"
            "    return -(0 * jnp.log(q)).mean()\n"
            "out = jax.jit(loss)(-200.0, jnp.ones(4))",
        ),
        "nan-made",
        "jnp.log(q)",
        ("the logarithm of 0",),
        "jax.nn.log_sigmoid(x * w)",
    ),
    Program(
        "log",
        ("@jax.jit\ndef f(x):\n    return jnp.log1p(-x)\nout = f(jnp.array([0.5, 1.5]))",),
        "nan-made",
        "jnp.log1p(-x)",
        ("log1p of -1.5 is NaN",),
        "jnp.log1p(jnp.maximum(-x, -1 + 1e-6))",
    ),
    # ------------------------------------------------------------------------------------ divisions
    Program(
        "division",
        (
            "def loss(pred, target, mask):\n"
            "    err = (pred - target) ** 2\n"
            "    return (err * mask).sum() / mask.sum()\n"
            "out = jax.jit(jax.value_and_grad(loss))(jnp.ones(3), jnp.zeros(3), jnp.zeros(3))",
        ),
        "nan-made",
        "(err * mask).sum() / mask.sum()",
        ("0 / 0 is NaN", "`mask.sum()` = 0"),
        "(err * mask).sum() / jnp.maximum(mask.sum(), 1)",
    ),
    Program(
        "division",
        ("out = jax.jit(lambda x, m: jnp.mean(x, where=m))(jnp.ones(3), jnp.zeros(3, bool))",),
        "nan-made",
        "jnp.mean(x, where=m)",
        ("0 / 0 is NaN",),
        "jnp.sum(x, where=m) / jnp.maximum(jnp.sum(m), 1)",
    ),
    Program(
        "division",
        (
            "def ratio(a, b):\n    return a / b\n"
            "@jax.jit\ndef both(xs):\n"
            "    return jax.lax.map(lambda x: ratio(x[0], x[1]), xs)\n"
            "out = both(jnp.array([[1.0, -1.0], [2.0, 4.0], [0.0, 0.0]]))",
        ),
        "nan-made",
        "a / b",
        ("0 / 0 is NaN", "iteration 2"),
        "a / ",
    ),
    Program(
        "division",
        (
            "import optax\n"
            "opt = optax.adam(1e-2, eps=0.0)\n"
            "params = {'w': jnp.zeros(3)}\n"
            "state = opt.init(params)\n"
            "@jax.jit\n"
            "def step(params, state):\n"
            "    grads = jax.grad(lambda p: (p['w'] ** 2).sum())(params)\n"
            "    updates, state = opt.update(grads, state)\n"
            "    return optax.apply_updates(params, updates), state\n"
            "for i in range(3):\n"
            "    params, state = step(params, state)\n"
            "out = params",
        ),
        "nan-made",
        "opt.update(grads, state)",
        ("0 / 0 is NaN", "inside of"),
        "eps=1e-8",
    ),
    Program(
        "division",
        ("def mean(xs):\n    kept = xs[xs > 9]\n    return kept.mean()\nout = mean(jnp.arange(3.0))",),
        "nan-made",
        "kept.mean()",
        ("0 / 0 is NaN",),
        "kept.mean() if kept.size else 0.0",
    ),
    Program(
        "division",
        (
            "@jax.jit\ndef shares(x):\n    return x / x.sum(axis=-1, keepdims=True)\n"
            "out = shares(jnp.array([[0.0, 0.0], [0.1, 0.3]]))",
        ),
        "nan-made",
        "x / x.sum(axis=-1, keepdims=True)",
        ("0 / 0 is NaN", "2 of 4 elements"),
        "x / jnp.maximum(x.sum(axis=-1, keepdims=True), 1e-12)",
    ),
    Program(
        "division",
        (
            "def wave(x):\n    return (jnp.sin(x) / x).sum()\n"
            "out = jax.jit(jax.value_and_grad(wave))(jnp.array([0.0, 1.0]))",
        ),
        "nan-made",
        "jnp.sin(x) / x",
        ("0 / 0 is NaN",),
        "jnp.sinc(x / jnp.pi)",
    ),
    # ------------------------------------------------------------------------------ inf - inf, 0 * inf
    Program(
        "inf - inf",
        (
            "@jax.jit\n"
            "def attention(q, k, v, mask):\n"
            "    scores = q @ k.T\n"
            "    scores = jnp.where(mask, scores, -jnp.inf)\n"
            "    weights = jax.nn.softmax(scores, axis=-1)\n"
            "    return weights @ v\n"
            "x = jnp.ones((3, 4))\n"
            "out = attention(x, x, x, jnp.array([[True, False, True], [False] * 3, [True] * 3]))",
        ),
        "nan-made",
        "jax.nn.softmax(scores, axis=-1)",
        ("-inf - -inf is NaN", "3 of 9 elements, the first at [1, 0]"),
        "jnp.finfo(jnp.float32).min",
    ),
    Program(
        "0 * inf",
        ("@jax.jit\ndef bias(m, s):\n    return m * s + (1 - m) * -jnp.inf\nout = bias(jnp.array([1.0, 1.0]), 2.0)",),
        "nan-made",
        "(1 - m) * -jnp.inf",
        ("0 * -inf is NaN",),
        "jnp.finfo(jnp.float32).min",
    ),
    Program(
        "0 * inf",
        (
            "def weighted(w, p):\n    return (w * jnp.log(p)).sum()\n"
            "out = [float(weighted(jnp.array([1.0, 0.0]), jnp.array([0.5, 0.0])))]",
        ),
        "nan-made",
        "jnp.log(p)",
        ("0 * -inf is NaN",),
        "jax.scipy.special.xlogy(w, p)",
    ),
    # ------------------------------------------------------------------------------------- edges
    Program(
        "power",
        ("@jax.jit\ndef f(x):\n    return x ** 0.3\nout = f(jnp.array([-1.0, 2.0]))",),
        "nan-made",
        "x ** 0.3",
        ("(-1) ** 0.3 is NaN",),
        "jnp.maximum(x, 1e-12) ** 0.3",
    ),
    Program(
        "power",
        ("out = jax.grad(lambda x: (((x - 1.0) ** 2).sum() ** 0.5))(jnp.ones(3))",),
        "nan-gradient",
        "((x - 1.0) ** 2).sum() ** 0.5",
        ("the derivative of",),
        "** 0.5",
    ),
    Program(
        "angle",
        ("def angle(x, y):\n    return jnp.arctan2(y, x)\nout = jax.jit(jax.grad(angle))(0.0, 0.0)",),
        "nan-gradient",
        "jnp.arctan2(y, x)",
        ("is 0 / 0",),
        "jnp.arctan2(y, jnp.where((x == 0) & (y == 0), 1.0, x))",
    ),
    Program(
        "angle",
        (
            "class Geometry:\n"
            "    def angle(self, a, b):\n"
            "        cosine = 1.0000001 * (a @ b) / (jnp.sqrt(a @ a) * jnp.sqrt(b @ b))\n"
            "        return jnp.arccos(cosine)\n"
            "out = jax.jit(Geometry().angle)(jnp.array([1.0, 0.0]), jnp.array([2.0, 0.0]))",
        ),
        "nan-made",
        "jnp.arccos(cosine)",
        ("arccos of 1.0000001 is NaN",),
        "jnp.arccos(jnp.clip(cosine, -1 + 1e-6, 1 - 1e-6))",
    ),
    Program(
        "angle",
        ("out = jax.grad(lambda c: jnp.arcsin(c) * 0.0)(1.0)",),
        "nan-gradient",
        "jnp.arcsin(c)",
        ("the derivative of",),
        "jnp.arcsin(jnp.clip(c, -1 + 1e-6, 1 - 1e-6))",
    ),
    # ------------------------------------------------------------------------------------ overflow
    Program(
        "half precision",
        (
            "@jax.jit\ndef f(x):\n    h = x.astype(jnp.float16)\n    z = h * h\n    return z - z\n"
            "out = f(jnp.array([300.0]))",
        ),
        "nan-made",
        "h * h",
        ("overflows (300 * 300)", "inf - inf is NaN"),
        "h.astype(jnp.float32) * h",
    ),
    Program(
        "half precision",
        (
            "@jax.jit\ndef f(x):\n    h = x.astype(jnp.float16)\n    return (h - h).sum()\n"
            "out = f(jnp.array([1e6, 1.0]))",
        ),
        "nan-made",
        "x.astype(jnp.float16)",
        ("overflows (1e+06 as float16)",),
        "x.astype(jnp.bfloat16)",
    ),
    Program(
        "half precision",
        (
            "class Layer:\n"
            "    def __call__(self, x):\n"
            "        e = jnp.exp(x)\n"
            "        return e - e\n"
            "out = jax.jit(Layer())(jnp.full(3, 12.0, jnp.float16))",
        ),
        "nan-made",
        "jnp.exp(x)",
        ("overflows (exp(12))",),
        "jnp.exp(x.astype(jnp.float32))",
    ),
    Program(
        "divergence",
        (
            "@jax.jit\n"
            "def step(w):\n"
            "    g = jax.grad(lambda w: (w ** 2).sum())(w)\n"
            "    return w - 3.0 * g\n"
            "w = jnp.ones(3)\n"
            "for i in range(80):\n"
            "    w = step(w)\n"
            "out = w",
        ),
        "nan-gradient",
        "w ** 2",
        ("overflows", "turn i = 55, call 56 of step"),
    ),
    Program(
        "divergence",
        (
            "def train(w, xs):\n"
            "    def step(w, x):\n"
            "        g = jax.grad(lambda w: jnp.sum((w * x) ** 2))(w)\n"
            "        return w - 1.5 * g, None\n"
            "    return jax.lax.scan(step, w, xs)[0]\n"
            "out = jax.jit(train)(jnp.ones(2), jnp.full((100, 2), 3.0))",
        ),
        "nan-made",
        "w * x",
        ("overflows", "iteration 27 of the loop at line 6"),
    ),
    Program(
        "divergence",
        (
            "loss = jax.jit(lambda w, x: jnp.mean((x @ w) ** 2))\n"
            "x, w = 5.0 * jnp.ones((8, 3)), jnp.ones(3)\n"
            "for step in range(25):\n"
            "    g = jax.grad(loss)(w, x)\n"
            "    w = w - 0.5 * g\n"
            "out = w",
        ),
        "nan-made",
        "x @ w",
        ("overflows", "-inf - -inf is NaN", "turn step = 20, call 21", "The values have grown"),
    ),
    Program(
        "products",
        ("def grow(x):\n    y = jnp.cumprod(x)\n    return y - y\nout = jax.jit(grow)(jnp.full(100, 1e3))",),
        "nan-made",
        "jnp.cumprod(x)",
        ("overflows (a running product of values 1000)",),
    ),
    Program(
        "matrix",
        ("out = jax.jit(jnp.linalg.cholesky)(jnp.array([[1.0, 1.0], [1.0, 1.0 - 1e-6]]))",),
        "nan-made",
        "jax.jit(jnp.linalg.cholesky)(jnp.array([[1.0, 1.0], [1.0, 1.0 - 1e-6]]))",
        ("not positive definite",),
    ),
    Program(
        "matrix",
        (
            "def factor(a):\n    return jnp.linalg.cholesky(a)\n"
            "out = jax.jit(factor)(jnp.array([[1.0, 1.0], [1.0, 1.0 - 2e-7]]))",
        ),
        "nan-made",
        "jnp.linalg.cholesky(a)",
        ("not positive definite",),
        "jnp.linalg.cholesky(a + 1e-6 * jnp.eye(a.shape[-1]))",
    ),
    Program(
        "matrix",
        ("out = jnp.linalg.cholesky(jnp.array([[1.0, 2.0], [2.0, 1.0]]))",),
        "nan-made",
        "jnp.linalg.cholesky(jnp.array([[1.0, 2.0], [2.0, 1.0]]))",
        ("not positive definite", "its eigenvalues go from -1 to 3"),
    ),
    Program(
        "matrix",
        ("@jax.jit\ndef fit(a, b):\n    return jnp.linalg.solve(a, b)\nout = fit(jnp.ones((2, 2)), jnp.ones(2))",),
        "nan-made",
        "jnp.linalg.solve(a, b)",
        ("the solution of a singular system is NaN",),
        "jnp.linalg.pinv(a) @ b",
    ),
    Program(
        "matrix",
        ("def size(a):\n    return jnp.log(jnp.linalg.det(a))\nout = jax.jit(jax.grad(size))(1e-3 * jnp.eye(20))",),
        "nan-gradient",
        "jnp.linalg.det(a)",
        ("is infinite (1 / 0)",),
        "jnp.linalg.slogdet(a)[1]",
    ),
    Program(
        "matrix",
        ("out = jax.jit(lambda a: jnp.log(jnp.linalg.det(a)))(jnp.diag(jnp.array([1.0, -2.0])))",),
        "nan-made",
        "jnp.log(jnp.linalg.det(a))",
        ("logarithm", "-2"),
    ),
    Program(
        "matrix",
        ("out = jax.grad(lambda a: (jnp.linalg.eigh(a)[1] ** 3).sum())(jnp.eye(3))",),
        "nan-gradient",
        "jnp.linalg.eigh(a)",
        ("divides by the difference of two values", "Two of the values are equal"),
    ),
    # -------------------------------------------------------------------------------- control flow
    Program(
        "loops",
        (
            "def f(x):\n"
            "    return jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.log(c[1] - 1)), (0, x))[1]\n"
            "out = jax.jit(f)(10.0)",
        ),
        "nan-made",
        "jnp.log(c[1] - 1)",
        ("the logarithm of -0.82 is NaN", "iteration 2 of the loop at line 3"),
        "jnp.log(jnp.maximum(c[1] - 1, 1e-12))",
    ),
    Program(
        "loops",
        (
            "@jax.jit\ndef f(x):\n"
            "    return jax.lax.cond(x > 0, lambda x: jnp.sqrt(x), lambda x: jnp.log(x), x)\n"
            "out = f(-1.0)",
        ),
        "nan-made",
        "jnp.log(x)",
        ("the logarithm of -1 is NaN",),
        "jnp.log(jnp.maximum(x, 1e-12))",
    ),
    Program(
        "loops",
        (
            "def decay(x):\n"
            "    def inner(j, y):\n"
            "        return y - jnp.sqrt(y)\n"
            "    return jax.lax.fori_loop(0, 2, lambda i, y: jax.lax.fori_loop(0, 3, inner, y), x)\n"
            "out = jax.jit(decay)(4.0)",
        ),
        "nan-made",
        "jnp.sqrt(y)",
        ("iteration 1 of the loop at line 5, iteration 0 of the loop at line 5",),
        "jnp.sqrt(jnp.maximum(y, 1e-12))",
    ),
    Program(
        "loops",
        ("out = []\nfor epoch in range(2):\n    for i in range(3):\n        out.append(jnp.sqrt(jnp.float32(1 - i)))",),
        "nan-made",
        "jnp.sqrt(jnp.float32(1 - i))",
        ("turn epoch = 0, turn i = 2",),
        "jnp.sqrt(jnp.maximum(jnp.float32(1 - i), 1e-12))",
    ),
    Program(
        "devices",
        (
            "from jax.sharding import PartitionSpec as P\n"
            "mesh = jax.sharding.Mesh(jax.devices()[:1], ('i',))\n"
            "def part(x):\n    y = jnp.log(x)\n    return y + 1.0\n"
            "f = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P('i'), out_specs=P('i')))\n"
            "out = f(jnp.array([-1.0, 1.0]))",
        ),
        "nan-made",
        "jnp.log(x)",
        ("the logarithm of -1 is NaN",),
        "jnp.log(jnp.maximum(x, 1e-12))",
    ),
    # -------------------------------------------------------------------------------- infinities
    Program(
        "infinity",
        ("@jax.jit\ndef f(x):\n    return 1 / x\nout = f(jnp.array([0.0, 2.0]))",),
        "infinity-made",
        "1 / x",
        ("is infinite (1 / 0)",),
        "1 / jnp.maximum(x, 1e-12)",
        when="inf",
    ),
    Program(
        "infinity",
        (
            "class Loss:\n    def __call__(self, p):\n        return -jnp.log(p).mean()\n"
            "out = jax.jit(Loss())(jnp.array([0.0, 1.0]))",
        ),
        "infinity-made",
        "jnp.log(p)",
        ("the logarithm of 0",),
        "jnp.log(jnp.maximum(p, 1e-12))",
        when="inf",
    ),
    Program(
        "infinity",
        ("out = jax.vmap(jax.grad(jnp.sqrt))(jnp.array([4.0, 0.0]))",),
        "infinity-made",
        "jax.vmap(jax.grad(jnp.sqrt))(jnp.array([4.0, 0.0]))",
        ("the gradient is infinite", "is infinite at 0"),
        when="inf",
    ),
    # ------------------------------------------------------------------------------ ratios of products
    Program(
        "product",
        ("q = jnp.full(100, 0.3)\np = q.cumprod()\nout = p[1:] / p[:-1]",),
        "nan-made",
        "p[1:] / p[:-1]",
        ("0 / 0", "27 of 99 elements"),
        "jnp.exp(jnp.cumsum(jnp.log(q))[1:] - jnp.cumsum(jnp.log(q))[:-1])",
    ),
    Program(
        "product",
        (
            "@jax.jit\ndef hazard(q):\n    survival = jnp.cumprod(1 - q, axis=-1)\n"
            "    return 1 - survival[..., 1:] / survival[..., :-1]\n"
            "out = jax.vmap(hazard)(jnp.full((2, 100), 0.7))",
        ),
        "nan-made",
        "survival[..., 1:] / survival[..., :-1]",
        ("becomes zero by rounding", "lanes 0, 1 of 2"),
        "jnp.exp(jnp.cumsum(jnp.log(1 - q), axis=-1)[..., 1:] - jnp.cumsum(jnp.log(1 - q), axis=-1)[..., :-1])",
    ),
    Program(
        "product",
        (
            "class Odds:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n"
            "    def __call__(self):\n        above = self.a.prod()\n        return above / self.b.prod()\n"
            "out = Odds(jnp.full(100, 0.1), jnp.full(100, 0.1001))()",
        ),
        "nan-made",
        "above / self.b.prod()",
        ("unless a factor is zero",),
        "jnp.exp(jnp.sum(jnp.log(self.a)) - jnp.sum(jnp.log(self.b)))",
    ),
    Program(
        "product",
        (
            "@jax.jit\ndef f(q):\n    p = jnp.cumprod(q)\n    q = 1 - q\n    return q[1:] * p[1:] / p[:-1]\n"
            "out = f(jnp.full(100, 0.1))",
        ),
        "nan-made",
        "q[1:] * p[1:] / p[:-1]",
        ("0 / 0",),
    ),
    # --------------------------------------------------------------- backward rules that the user wrote
    Program(
        "custom_vjp",
        (
            "@jax.custom_vjp\ndef root(x):\n    return jnp.sqrt(x)\n"
            "def fwd(x):\n    y = jnp.sqrt(x)\n    return y, y\n"
            "def bwd(y, g):\n    return (g * 0.5 / y,)\n"
            "root.defvjp(fwd, bwd)\n"
            "out = jax.jit(jax.grad(lambda x: (root(x) * x).sum()))(jnp.array([0.0, 4.0]))",
        ),
        "nan-gradient",
        "g * 0.5 / y",
        ("the gradient is NaN: 0 / 0", "`y`: 0 there"),
        "g * 0.5 / jnp.maximum(y, 1e-12)",
    ),
    Program(
        "custom_vjp",
        (
            "class Norm:\n    @staticmethod\n    @jax.custom_vjp\n    def length(x):\n"
            "        return jnp.sqrt((x * x).sum())\n"
            "    def __call__(self, x):\n        return Norm.length(x) * 2\n"
            "Norm.length.defvjp(\n    lambda x: (Norm.length(x), x),\n"
            "    lambda x, g: (g * x / jnp.sqrt((x * x).sum()),),\n)\n"
            "out = jax.vmap(jax.grad(Norm()))(jnp.array([[0.0, 0.0], [3.0, 4.0]]))",
        ),
        "nan-gradient",
        "g * x / jnp.sqrt((x * x).sum())",
        ("0 / 0",),
        "jnp.sqrt((x * x).sum() + 1e-12)",
    ),
    Program(
        "custom_vjp",
        (
            "def layer(x):\n    @jax.custom_vjp\n    def f(x):\n        return x * x\n"
            "    def back(x, g):\n        scale = jnp.log(x)\n        return (g * scale,)\n"
            "    f.defvjp(lambda x: (x * x, x), back)\n    return f(x).sum()\n"
            "out = jax.value_and_grad(layer)(jnp.array([-1.0, 4.0]))",
        ),
        "nan-gradient",
        "jnp.log(x)",
        ("the logarithm of -1",),
        "jnp.log(jnp.maximum(x, 1e-12))",
    ),
    # ------------------------------------------------------------------ what no other number would mend
    Program(
        "power",
        (
            "def f(y, x):\n    return jnp.power(x, y).sum()\n"
            "out = jax.grad(f)(jnp.array([2.0, 2.0]), jnp.array([-1.0, 1.0]))",
        ),
        "nan-gradient",
        "jnp.power(x, y)",
        ("the logarithm of -1", "by the exponent multiplies by the logarithm"),
    ),
    Program(
        "half precision",
        (
            "def loss(w, x):\n    y = x @ w.astype(jnp.float16)\n    return (y**2).mean() * 2.0**15\n"
            "g = jax.grad(lambda w: loss(w, jnp.full((2, 2), 30.0, jnp.float16)).astype(jnp.float32))(jnp.ones(2))\n"
            "out = g - g",
        ),
        "nan-gradient",
        "y**2",
        ("overflows", "a smaller scale"),
    ),
    # ------------------------------------------------------ what underflows, and edges that are not zero
    Program(
        "softmax",
        (
            "def ess(logw):\n    w = jnp.exp(logw)\n    w = w / w.sum()\n    return 1 / (w**2).sum()\n"
            "out = jax.jit(ess)(jnp.array([-200.0, -210.0]))",
        ),
        "nan-made",
        "w / w.sum()",
        ("0 / 0",),
        "jax.nn.softmax(logw)",
    ),
    Program(
        "domain",
        (
            "def angle(u, v):\n    return jnp.arccos(jnp.clip(u @ v, -1.0, 1.0))\n"
            "out = jax.grad(angle)(jnp.array([1.0, 0.0]), jnp.array([1.0, 0.0]))",
        ),
        "nan-gradient",
        "jnp.arccos(jnp.clip(u @ v, -1.0, 1.0))",
        ("is infinite at the edge of its domain",),
        "jnp.arccos(jnp.clip(jnp.clip(u @ v, -1.0, 1.0), -1 + 1e-6, 1 - 1e-6))",
    ),
    Program(
        "power",
        ("def f(x, y):\n    return (x**y).sum()\nout = jax.grad(f)(jnp.array([0.0, 1.0]), jnp.array([0.5, 2.0]))",),
        "infinity-made",
        "x**y",
        ("the gradient is infinite: the derivative of `x**y` is infinite at 0", "operand 2 of pow: -0.5 there"),
        "(x + 1e-12) ** y",
        when="inf",
    ),
]
