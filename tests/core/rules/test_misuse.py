"""Functions of JAX's that are given what they can't take: what is said, and the fix applied and run."""

import pytest
from failing_cells import failed

IMPORTS = "from functools import partial\nimport jax, jax.numpy as jnp, numpy as np\n"

CUBE = """\
@jax.custom_vjp
def cube(x):
    return x ** 3
def forward(x):
    return x ** 3, x
"""
SCALED = """\
@partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled(n, x):
    return n * x
def forward(n, x):
    return n * x, None
"""
LOSS = "def loss(w, x):\n    return (w * x).sum()\n"

MENDED = [
    # rule, cells, what is said, the fix
    (
        "custom-rule-result",
        [
            CUBE + "def backward(x, g):\n    return 3 * x ** 2 * g\ncube.defvjp(forward, backward)",
            "out = jax.grad(cube)(2.0)",
        ],
        "`backward` returns no tuple, and `cube` takes 1 argument (x)",
        "(3 * x ** 2 * g,)",
    ),
    (
        "custom-rule-result",
        [
            SCALED + "scaled.defvjp(forward, lambda n, kept, g: (None, n * g))",
            "out = jax.jit(lambda x: jax.grad(scaled, argnums=1)(2, x))(3.0)",
        ],
        "returns 2 cotangents",
        "(n * g,)",
    ),
    (
        "custom-rule-result",
        [
            "@jax.custom_vjp\ndef keep(x):\n    return x * 1\ndef fwd(x):\n    y = x * 1\n    return y\n"
            "keep.defvjp(fwd, lambda kept, g: (g.clip(-1, 1),))",
            "out = jax.grad(lambda x: keep(x) * 2)(1.0)",
        ],
        "the forward rule `fwd` of `keep` returns no pair",
        "(y, None)",
    ),
    (
        "custom-rule-result",
        [
            "@jax.custom_jvp\ndef square(x):\n    return x ** 2\n@square.defjvp\n"
            "def rule(primals, tangents):\n    (x,), (t,) = primals, tangents\n    return 2 * x * t",
            "out = jax.grad(square)(3.0)",
        ],
        "`rule` of `square` returns no pair",
        "(square(*primals), 2 * x * t)",
    ),
    (
        "custom-rule-arguments",
        [
            SCALED + "def backward(kept, g):\n    return (g,)\nscaled.defvjp(forward, backward)",
            "out = jax.grad(scaled, argnums=1)(2, 3.0)",
        ],
        "`backward` gets 3 arguments, and takes `kept` and `g`",
        "def backward(n, kept, g):",
    ),
    (
        "custom-rule-arguments",
        [
            "@jax.custom_vjp\ndef f(x, y):\n    return x * y\ndef fwd(x):\n    return x * 1.0, None\n"
            "def bwd(kept, g):\n    return g, g\nf.defvjp(fwd, bwd)",
            "out = jax.grad(f)(2.0, 3.0)",
        ],
        "the forward rule `fwd` gets 2 arguments",
        "def fwd(x, y):",
    ),
    (
        "custom-rule-arguments",
        [
            "def scale(x, factor, bias):\n    return x * factor + bias\nscale = jax.custom_vjp(scale)\n"
            "def scale_fwd(x, factor):\n    return x * factor, factor\n"
            "scale.defvjp(scale_fwd, lambda factor, g: (g * factor, None, None))",
            "@jax.jit\ndef total(xs):\n    return jax.vmap(lambda x: scale(x, 2.0, 1.0))(xs).sum()\n"
            "out = jax.grad(total)(jnp.ones(3))",
        ],
        "the forward rule `scale_fwd` gets 3 arguments",
        "def scale_fwd(x, factor, bias):",
    ),
    (
        "custom-rule-missing",
        [CUBE + "cube.defvjp(forward, lambda x, g: (3 * x ** 2 * g,))", "out = jax.jacfwd(cube)(2.0)"],
        "no derivative forwards",
        "jax.jacrev(cube)(2.0)",
    ),
    (
        "cotangent-type",
        ["y, pull = jax.vjp(lambda x: x * 2, jnp.ones((2, 3)))", "out = pull(1.0)"],
        "`1.0` is f32[]",
        "pull(jnp.full((2, 3), 1.0, 'float32'))",
    ),
    (
        "cotangent-type",
        [
            "class Line:\n    def __call__(self, w):\n        return jnp.arange(4.0) * w\n"
            "def pulled(w, seed):\n    y, back = jax.vjp(Line(), w)\n    return back(seed)[0]",
            "out = jax.jit(pulled)(2.0, 1.0)",
        ],
        "`seed` is f32[]",
        "back(jnp.full((4,), seed, 'float32'))",
    ),
    (
        "cotangent-type",
        [
            "def row(x):\n    y, vjp_fun = jax.vjp(jnp.sin, x)\n    return vjp_fun(1)",
            "out = jax.vmap(row)(jnp.ones((2, 3)))",
        ],
        "`1` is i32[]",
        "vjp_fun(jnp.full((3,), 1, 'float32'))",
    ),
    (
        "no-such-argument",
        [LOSS, "out = jax.grad(loss, argnums=2)(jnp.ones(3), jnp.ones(3))"],
        "argument 2, and 2 are passed",
        "1",
    ),
    (
        "no-such-argument",
        [LOSS, "out = jax.value_and_grad(loss)(w=jnp.ones(3), x=jnp.ones(3))"],
        "0 are passed by position",
        "jax.value_and_grad(loss)(jnp.ones(3), jnp.ones(3))",
    ),
    (
        "no-such-argument",
        [LOSS, "out = jax.grad(loss, argnums='x')(jnp.ones(3), jnp.ones(3))"],
        "it takes positions",
        "1",
    ),
    (
        "no-such-argument",
        ["def f(x, n):\n    return x * n", "out = jax.jit(f, static_argnums=2)(1.0, 2)"],
        "`static_argnums` names argument 2, and `f` takes 2: x, n",
        "1",
    ),
    (
        "no-such-argument",
        ["@partial(jax.jit, donate_argnums=(1,))\ndef step(state):\n    return state + 1\nout = step(jnp.ones(2))"],
        "`donate_argnums` names argument 1",
        "0",
    ),
    (
        "no-such-argument",
        [
            "class M:\n    @partial(jax.jit, static_argnames=('self', 'axes'))\n"
            "    def total(self, x, axis):\n        return x.sum(axis)\nout = M().total(jnp.ones(2), axis=0)"
        ],
        "names `axes`, and `total` takes `self`, `x` and `axis`",
        "'axis'",
    ),
    (
        "no-such-argument",
        ["def f(x, *, mode):\n    return x\nout = jax.jit(f, static_argnames='modes')(1.0, mode='a')"],
        "`f` takes `x` and `mode`",
        "'mode'",
    ),
    (
        "checkpoint-policy",
        [
            "@partial(jax.checkpoint, policy='dots_saveable')\ndef f(x):\n    return jnp.sin(x @ x).sum()",
            "out = jax.grad(f)(jnp.ones((2, 2)))",
        ],
        "the policy is the string",
        "jax.checkpoint_policies.dots_saveable",
    ),
    (
        "checkpoint-policy",
        ["out = jax.checkpoint(jnp.sin, policy=jax.checkpoint_policies.dot_saveable)(1.0)"],
        "no checkpoint policy `dot_saveable`",
        "jax.checkpoint_policies.dots_saveable",
    ),
    (
        "scan-length",
        ["out = jax.lax.scan(lambda c, x: (c + x, None), 0.0, 4)"],
        "`4` is a number",
        "jax.lax.scan(lambda c, x: (c + x, None), 0.0, jnp.arange(4))",
    ),
    (
        "scan-length",
        [
            "def body(c, x):\n    return c + x, c\nclass M:\n    steps = 5\n"
            "    def run(self):\n        return jax.lax.scan(body, 0, range(self.steps))[1]",
            "out = jax.jit(M().run)()",
        ],
        "`range(self.steps)` is a range",
        "jax.lax.scan(body, 0, jnp.arange(self.steps))",
    ),
    (
        "body-arguments",
        ["def body(c):\n    return c * 2, None", "out = jax.lax.scan(body, 1.0, length=3)"],
        "`scan` calls its function with the carry and a row of `xs`, and `body` takes `c`",
        "def body(c, _):",
    ),
    (
        "body-arguments",
        ["@jax.jit\ndef power(x):\n    return jax.lax.fori_loop(0, 3, lambda c: c * x, 1.0)", "out = power(2.0)"],
        "the index and the carry",
        "lambda i, c: c * x",
    ),
    (
        "body-arguments",
        ["def body(c):\n    return c * 2", "out = jax.grad(lambda x: jax.lax.fori_loop(0, 3, body, x))(1.0)"],
        "`body` takes `c`",
        "def body(i, c):",
    ),
    (
        "body-arguments",
        ["out = jax.lax.map(lambda x, y: x + y, jnp.ones(3), jnp.ones(3))"],
        "goes over one argument, and got 2",
        "jax.lax.map(lambda xs: (lambda x, y: x + y)(*xs), (jnp.ones(3), jnp.ones(3)))",
    ),
    (
        "body-arguments",
        ["params = {'w': jnp.ones(3)}", "out = jax.tree.map(params, lambda x: x * 2)"],
        "takes the function first",
        "jax.tree.map(lambda x: x * 2, params)",
    ),
    (
        "tree-structure",
        ["a, b = [1.0, 2.0], (3.0, 4.0)", "out = jax.tree.map(lambda x, y: x + y, a, b)"],
        "`a` is a list, and `b` a tuple",
        "jax.tree.map(lambda x, y: x + y, a, list(b))",
    ),
    (
        "in-axes",
        ["total = jax.vmap(lambda x: x.sum(), out_axes=None)", "out = total(jnp.ones((3, 2)))"],
        "out_axes=None says",
        "jax.vmap(lambda x: x.sum())",
    ),
    (
        "array-not-numeric",
        ["column = np.array([1, 2.5, 3], dtype=object)", "out = jnp.sum(column)"],
        "`column` holds Python objects",
        "jnp.sum(column.astype(float))",
    ),
    (
        "shape-not-array",
        ["y = jax.eval_shape(lambda x: {'a': x * 2}, jnp.ones(3))", "out = jnp.sum(y['a'])"],
        "`y['a']` is only a shape and a dtype (f32[3])",
        "(lambda x: {'a': x * 2})(jnp.ones(3))",
    ),
    (
        "shape-not-array",
        ["y = jax.eval_shape(jnp.sin, jnp.ones(3))", "out = y * 2"],
        "`y` is only a shape",
        "jnp.sin(jnp.ones(3))",
    ),
    (
        "setting-not-array",
        [
            "def f(x, how):\n    return x.mean() if how == 'mean' else x.sum()",
            "out = jax.vmap(f)(jnp.ones((4, 3)), 'mean')",
        ],
        "argument `how` is a str, and vmap takes",
        "jax.vmap(lambda x: f(x, 'mean'))(jnp.ones((4, 3)))",
    ),
    (
        "setting-not-array",
        [
            "class M:\n    def __call__(self, x, mode):\n        return x * 2\nm = M()",
            "out = jax.eval_shape(m, jnp.ones(3), 'relu')",
        ],
        "argument `mode` is a str, and eval_shape takes",
        "jax.eval_shape(lambda x: m(x, 'relu'), jnp.ones(3))",
    ),
]


@pytest.mark.parametrize(
    ("rule", "cells", "said", "fix"), MENDED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_wrong_is_said_and_mended(rule: str, cells: list[str], said: str, fix: str):
    program = failed(IMPORTS + cells[0], *cells[1:])
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert program.finding.fix == fix
    assert "out" in program.fixed().namespace


TOLD = [
    ("operand-not-array", ["jnp.add('a', jnp.ones(3))"], "`'a'` is a str, where an array is needed", "jnp.add("),
    (
        "custom-rule-result",
        [
            "@jax.custom_vjp\ndef f(x, y):\n    return x * y\ndef bwd(kept, g):\n    return (g * kept[1],)\n"
            "f.defvjp(lambda x, y: (x * y, (x, y)), bwd)",
            "jax.grad(f)(2.0, 3.0)",
        ],
        "`bwd` returns 1 cotangent, and `f` takes 2",
        "(g * kept[1],)",
    ),
    (
        "custom-rule-result",
        [
            "@jax.custom_vjp\ndef f(w, x):\n    return w @ x\n"
            "f.defvjp(lambda w, x: (w @ x, (w, x)), lambda kept, g: (kept[1], kept[0].T @ g))",
            "jax.grad(lambda w, x: f(w, x).sum())(jnp.ones((2, 3)), jnp.ones(3))",
        ],
        "`kept[1]` is f32[3], the cotangent of `w`, which is f32[2,3]",
        "kept[1]",
    ),
    (
        "custom-rule-result",
        [
            "@jax.custom_jvp\ndef f(x):\n    return (x ** 2).sum()\n@f.defjvp\ndef rule(primals, tangents):\n"
            "    (x,), (t,) = primals, tangents\n    return f(x), 2 * x * t",
            "jax.jit(jax.grad(f))(jnp.ones(3))",
        ],
        "`2 * x * t` is f32[3], the tangent of a result that is f32[]",
        "2 * x * t",
    ),
    (
        "custom-rule-missing",
        ["@jax.custom_vjp\ndef f(x):\n    return x * 2", "jax.grad(f)(1.0)"],
        "`f` has a custom_vjp and no rule",
        "def f(x):",
    ),
    (
        "custom-rule-missing",
        ["@jax.custom_jvp\ndef f(x):\n    return x * 2", "jax.jit(jax.grad(f))(1.0)"],
        "`f` has a custom_jvp and no rule",
        "def f(x):",
    ),
    (
        "no-such-argument",
        ["@partial(jax.jit, static_argnames=('m',))\ndef f(x, n):\n    return x * n"],
        "`static_argnames` names `m`, and `f` takes `x` and `n`",
        "('m',)",
    ),
    (
        "checkpoint-policy",
        [
            "policies = jax.checkpoint_policies\n@partial(jax.checkpoint, policy=policies.save_only_these_names)\n"
            "def f(x):\n    return jnp.sin(x @ x).sum()",
            "jax.grad(f)(jnp.ones((2, 2)))",
        ],
        "`save_only_these_names` was not called",
        "policies.save_only_these_names",
    ),
    (
        "scan-length",
        ["jax.lax.scan(lambda c, x: (c + x['a'] * x['b'], None), 0.0, {'a': jnp.ones(3), 'b': jnp.ones(4)})"],
        "`jnp.ones(3)` has 3 and `jnp.ones(4)` has 4",
        "jax.lax.scan(",
    ),
    (
        "scan-length",
        ["xs = (jnp.ones(3), jnp.ones((4, 2)))", "jax.jit(lambda: jax.lax.scan(lambda c, x: (c, x), 0.0, xs))()"],
        "`xs[0]` has 3 and `xs[1]` has 4",
        "jax.lax.scan(",
    ),
    ("scan-length", ["jax.lax.scan(lambda c, _: (c * 2, None), 1.0, None)"], "`length` does not say", "jax.lax.scan("),
    (
        "body-arguments",
        ["a = {'w': jnp.ones(3)}", "jax.tree.map(lambda x, y: x + y, a)"],
        "`tree.map` calls its function with a leaf, and `lambda x, y: x + y` takes `x` and `y`",
        "jax.tree.map(",
    ),
    (
        "tree-structure",
        ["a, b = {'w': 1.0, 'b': None}, {'w': 2.0, 'b': 3.0}", "jax.tree.map(lambda x, y: x + y, a, b)"],
        "`a['b']` is None, and the other tree has an array there",
        "jax.tree.map(",
    ),
    (
        "array-not-numeric",
        ["names = np.array(['a', 'b'])", "jnp.asarray(names)"],
        "`names` holds text",
        "jnp.asarray(names)",
    ),
    (
        "array-not-numeric",
        ["batch = {'x': np.ones(2), 'text': np.array(['a', 'b'])}", "jax.device_put(batch)"],
        "`batch['text']` holds text",
        "jax.device_put(batch)",
    ),
    (
        "array-not-numeric",
        ["rows = [[1, 2], [3]]\njnp.array(rows)"],
        "`rows` holds rows of different lengths",
        "jnp.array(rows)",
    ),
    ("array-not-numeric", ["jnp.array([1.0, None])"], "holds None", "jnp.array("),
    (
        "array-not-numeric",
        ["days = np.array(['2024-01-01'], dtype='datetime64[D]')\njnp.asarray(days)"],
        "`days` holds dates",
        "jnp.asarray(",
    ),
    (
        "shape-not-array",
        ["spec = jax.ShapeDtypeStruct((3,), jnp.float32)\njax.jit(lambda x: x * 2)(spec)"],
        "`spec` is only a shape",
        "jax.jit(",
    ),
    (
        "setting-not-array",
        ["jax.grad(lambda p: p['w'].sum())({'w': jnp.ones(3), 'name': 'a'})"],
        "`p['name']` is a str",
        "jax.grad(",
    ),
    (
        "setting-not-array",
        ["@jax.checkpoint\ndef f(w, how):\n    return w.sum()", "jax.grad(f)(jnp.ones(3), 'sum')"],
        "argument `how` is a str, and checkpoint takes",
        "jax.grad(f)",
    ),
    ("out-of-memory", ["x = jnp.zeros((1_000_000, 1_000_000, 100))"], "needs 364 TiB", "jnp.zeros("),
    (
        "out-of-memory",
        [
            "def pairs(a):\n    return (a[:, None, :] - a[None, :, :]) ** 2\nf = jax.jit(lambda a: pairs(a) @ a.T)",
            "a = jnp.ones((500_000, 3))\njax.block_until_ready(f(a))",
        ],
        "memory at once",
        "",
    ),
    (
        "out-of-memory",
        ["class Grid:\n    def cells(self, n):\n        return jnp.ones((n, n, n))\nGrid().cells(100_000)"],
        "needs 3.55 PiB",
        "jnp.ones((n, n, n))",
    ),
]


@pytest.mark.parametrize(
    ("rule", "cells", "said", "marked"), TOLD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_wrong_is_said_where_no_fix_is_sure(rule: str, cells: list[str], said: str, marked: str):
    program = failed(IMPORTS + cells[0], *cells[1:])
    assert program.finding.rule == rule
    assert said in program.finding.title
    assert marked in program.marked
    assert program.finding.fix == ""
