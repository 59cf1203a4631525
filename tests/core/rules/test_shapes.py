"""Shapes that do not fit, in plain code and inside layers of Flax and Equinox."""

import pytest
from failing_cells import failed

IMPORTS = "import jax, jax.numpy as jnp\n"


def test_a_product_in_a_layer_loop_names_the_pass_and_the_parameter():
    program = failed(
        IMPORTS + "def mlp(params, x):\n    for w, b in params:\n        x = jnp.tanh(x @ w + b)\n    return x",
        "k = jax.random.key(0)\nparams = [(jax.random.normal(k, (8, 16)), jnp.zeros(16)),\n"
        "          (jax.random.normal(k, (8, 4)), jnp.zeros(4))]\njax.jit(mlp)(params, jnp.ones((5, 8)))",
    )
    assert program.finding.rule == "matmul-shapes"
    assert program.text == "x @ w"
    assert program.operands == {"x": "f32[5,16]", "w": "f32[8,4]"}
    assert "`w` is `params[1][0]`, in pass 2 of the loop" in program.evidence
    assert "16 and 8" in program.finding.title
    assert [hint.span.line for hint in program.failure.operands[1].provenance][:2] == [3, 2]


FIXED = [
    ("matmul-shapes", "out = jnp.ones((5, 3)) @ jnp.ones((4, 3))", "jnp.ones((5, 3)) @ jnp.ones((4, 3)).T", (5, 4)),
    ("broadcast-shapes", "x, b = jnp.ones((5, 3)), jnp.ones(5)\nout = x + b", "x + b[:, None]", (5, 3)),
    ("broadcast-shapes", "x, b = jnp.ones((5, 3)), jnp.ones((3, 5))\nout = x - b", "x - b.T", (5, 3)),
    (
        "join-shapes",
        "x, y = jnp.ones((5, 3)), jnp.ones((5, 2))\nout = jnp.concatenate([x, y])",
        "jnp.concatenate([x, y], axis=1)",
        (5, 5),
    ),
    ("reshape-size", "out = jnp.ones((5, 3)).reshape(4, 5)", "jnp.ones((5, 3)).reshape(-1, 5)", (3, 5)),
    ("reshape-size", "out = jnp.reshape(jnp.ones(6), (4, 2))", "jnp.reshape(jnp.ones(6), (-1, 2))", (3, 2)),
]


@pytest.mark.parametrize(("rule", "body", "fix", "shape"), FIXED)
def test_a_form_that_fits_is_offered(rule: str, body: str, fix: str, shape: tuple[int, ...]):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.finding.fix == fix
    assert program.fixed().namespace["out"].shape == shape


def test_the_axis_that_fails_is_named():
    program = failed(IMPORTS + "a, b = jnp.ones((2, 3)), jnp.ones((2, 4))\na * b")
    assert program.finding.title.endswith("axis -1 is 3 in one and 4 in the other")
    assert not program.finding.fix


def test_operands_made_by_user_functions_are_read_from_the_call_not_run_again():
    program = failed(
        IMPORTS + "calls = []\ndef helper(a):\n    calls.append(1)\n    return a * 2",
        "helper(jnp.ones((5, 3))) * helper(jnp.ones(4))",
    )
    assert list(program.operands.values()) == ["f32[5,3]", "f32[4]"]
    assert len(program.notebook.namespace["calls"]) == 2


def test_the_odd_array_in_a_stack_is_named():
    program = failed(IMPORTS + "a, b, c = jnp.ones(3), jnp.ones(3), jnp.ones(4)\njnp.stack([a, b, c])")
    assert program.finding.rule == "join-shapes"
    assert "`c` is the odd one" in program.finding.explanation


def test_an_einsum_names_the_letter():
    program = failed(IMPORTS + "jnp.einsum('ij,jk->ik', jnp.ones((2, 3)), jnp.ones((4, 5)))")
    assert program.finding.rule == "matmul-shapes"
    assert "axis j is 3 in one operand and 4 in another" in program.finding.title or "axis j" in program.finding.title


def test_a_convolution_names_the_channels():
    program = failed(IMPORTS + "jax.lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 2, 3, 3)), (1, 1), 'SAME')")
    assert program.finding.rule == "convolution-shapes"
    assert program.finding.title == "the input has 3 channels, the filter takes 2"


def test_an_unknown_complaint_about_shapes_is_shown_with_its_operands():
    program = failed(IMPORTS + "x = jnp.ones((2, 3))\njnp.squeeze(x, 0)")
    assert program.finding.rule == "shape-mismatch"
    assert "`x` (f32[2,3])" in program.finding.explanation


EQUINOX = (
    IMPORTS
    + """
import equinox as eqx
class Net(eqx.Module):
    layers: list
    def __init__(self, key):
        self.layers = [eqx.nn.Linear(3, 8, key=key), eqx.nn.Linear(8, 2, key=key)]
    def __call__(self, x):
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x
net = Net(jax.random.key(0))
"""
)


def test_an_equinox_layer_that_got_a_batch_is_mapped_over_it():
    program = failed(EQUINOX, "out = eqx.filter_jit(net)(jnp.ones((5, 3)))")
    assert program.finding.rule == "layer-input"
    assert program.finding.title == "layer `self.layers[0]` (Linear) got f32[5,3], and takes one example"
    assert program.finding.fix == "jax.vmap(eqx.filter_jit(net))(jnp.ones((5, 3)))"
    assert program.fixed().namespace["out"].shape == (5, 2)


def test_an_equinox_layer_of_the_wrong_width_is_found_by_its_path():
    program = failed(EQUINOX.replace("(8, 2, key", "(9, 2, key"), "eqx.filter_jit(net)(jnp.ones(3))")
    assert program.finding.title == "layer `self.layers[1]` (Linear) got f32[8], but takes 9 features"
    assert "weight f32[2,9]" in program.finding.explanation


def test_an_nnx_layer_is_named_with_its_parameters():
    program = failed(
        IMPORTS + "from flax import nnx\nclass Two(nnx.Module):\n    def __init__(self, rngs):\n"
        "        self.a = nnx.Linear(3, 4, rngs=rngs)\n        self.b = nnx.Linear(5, 2, rngs=rngs)\n"
        "    def __call__(self, x):\n        return self.b(self.a(x))",
        "nnx.jit(lambda m, x: m(x))(Two(nnx.Rngs(0)), jnp.ones((5, 3)))",
    )
    assert program.finding.title == "layer `self.b` (Linear) got f32[5,4], but takes 5 features"


def test_linen_parameters_made_for_another_input_are_labelled_right():
    program = failed(
        IMPORTS + "import flax.linen as nn\nclass MLP(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n"
        "        return nn.Dense(2)(nn.Dense(8)(x))",
        "m = MLP()\np = m.init(jax.random.key(0), jnp.ones((1, 4)))\njax.jit(m.apply)(p, jnp.ones((5, 3)))",
    )
    assert program.finding.rule == "layer-input"
    assert "expected by the input: (3, 8)" in program.evidence
    assert "actual, in the parameters: (4, 8)" in program.evidence
    assert program.text == "nn.Dense(8)(x)"


ADDED = [
    ("out = jnp.ones((3, 8, 8)) - jnp.ones(3)", "jnp.ones(3)[:, None, None]", (3, 8, 8)),
    ("m = jnp.ones(4, bool)\nout = jnp.where(m, jnp.ones((4, 2)), 0.0)", "m[:, None]", (4, 2)),
]


@pytest.mark.parametrize(("body", "fix", "shape"), ADDED)
def test_axes_are_added_until_the_shapes_fit(body: str, fix: str, shape: tuple[int, ...]):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "broadcast-shapes"
    assert fix in program.finding.fix
    assert program.fixed().namespace["out"].shape == shape


def test_the_sizes_of_an_einsum_are_told_by_operand():
    program = failed(IMPORTS + "w, v = jnp.ones((5, 7)), jnp.ones((6, 8))\njnp.einsum('qk,kd->qd', w, v)")
    assert program.finding.title.endswith("axis k is 7 in `w` and 6 in `v`")
    letters = failed(IMPORTS + "x = jnp.ones((3, 4))\njnp.einsum('bij,jk->bik', x, jnp.ones((4, 5)))")
    assert letters.finding.title == "einsum: `bij` has 3 letters, but `x` (f32[3,4]) has 2 axes"


def test_the_batch_axes_of_a_product_are_named():
    program = failed(IMPORTS + "a, b = jnp.ones((5, 3, 4)), jnp.ones((6, 4, 2))\na @ b")
    assert program.finding.title == "`a @ b`: the leading axes (5,) and (6,) can't be combined"


def test_what_is_put_into_a_place_is_compared_with_the_place():
    program = failed(IMPORTS + "jax.jit(lambda b, r, i: b.at[i].set(r))(jnp.zeros((4, 3)), jnp.ones(4), 1)")
    assert program.finding.title == "`r` (f32[4]) does not fit its place in `b` (f32[4,3]), which has shape (3,)"


def test_the_elements_of_a_list_are_told_apart():
    program = failed(IMPORTS + "rows = [jnp.ones(3), jnp.ones(3), jnp.ones(2)]\njnp.stack(rows)")
    assert program.finding.rule == "join-shapes"
    assert "`rows[2]` is the odd one" in program.finding.explanation


def test_another_shape_error_is_said_in_jaxs_words_beside_the_expression():
    program = failed(IMPORTS + "x = jnp.ones((3, 4))\nx.sum(axis=2)")
    assert program.finding.title.startswith("`x.sum(axis=2)`: axis 2 is out of bounds")
    assert "`x` (f32[3,4])" in program.finding.explanation


TREES = [
    (
        "p, g = {'w': 1.0, 'b': {'c': 0.0}}, {'w': 1.0, 'b': {}}\njax.tree.map(lambda a, b: a, p, g)",
        "`p` has `p['b']['c']`",
    ),
    ("p, g = (1.0, 2.0), (1.0, 2.0, 3.0)\njax.tree.map(lambda a, b: a, p, g)", "`g` has `g[2]`, which `p` has not"),
    (
        "class M:\n    def step(self, p, g):\n        return jax.tree.map(lambda a, b: a - b, p, g)\n"
        "M().step({'w': 1.0}, {'w': 1.0, 'b': 2.0})",
        "`g` has `g['b']`, which `p` has not",
    ),
]


@pytest.mark.parametrize(("body", "said"), TREES)
def test_what_only_one_of_two_trees_has_is_named(body: str, said: str):
    program = failed(IMPORTS + body)
    assert program.finding.rule == "tree-structure"
    assert said in program.finding.title


def test_the_state_of_an_optimizer_is_made_anew_for_other_parameters():
    program = failed(
        IMPORTS + "import optax\nopt = optax.adam(0.1)\nstate = opt.init({'w': jnp.ones(2)})\n"
        "params = {'w': jnp.ones(2), 'b': jnp.ones(())}",
        "updates, state = opt.update(params, state, params)\nout = updates['b']",
    )
    assert program.finding.rule == "tree-structure"
    assert program.finding.fix.startswith("state = opt.init(params)\n")
    assert program.fixed().namespace["out"].shape == ()


KINDS = [
    (
        "dtype-not-accepted",
        "i = jnp.array([2.0, 0.0])\nout = jnp.arange(5)[i].sum()",
        "jnp.arange(5)[i.astype(int)]",
        2,
    ),
    (
        "dtype-not-accepted",
        "out = jax.jit(lambda i, x: jax.lax.switch(i, [lambda x: x, lambda x: x + 1], x))(1.0, 2)",
        "jax.lax.switch(i.astype(int), [lambda x: x, lambda x: x + 1], x)",
        3,
    ),
    ("dtype-not-accepted", "a = jnp.array([0.5, 0.0])\nout = (a & True).sum()", "jnp.logical_and(a, True)", 1),
    ("dtype-not-accepted", "k = jax.random.key(0)\nout = (k + 1).size", "jax.random.fold_in(k, 1)", 1),
    ("dtype-not-accepted", "out = jax.random.normal(42, (3,)).size", "jax.random.normal(jax.random.key(42), (3,))", 3),
    (
        "dtype-not-accepted",
        "ks = jax.random.split(jax.random.key(0), 4)\nout = jax.random.normal(ks, (3,)).size",
        "jax.vmap(lambda key: jax.random.normal(key, (3,)))(ks)",
        12,
    ),
    ("operand-not-array", "out = (jnp.ones(2) * [1.0, 2.0]).sum()", "jnp.ones(2) * jnp.asarray([1.0, 2.0])", 3),
    ("operand-not-array", "v = [0.0, 0.0]\nout = jnp.exp(v).sum()", "jnp.exp(jnp.asarray(v))", 2),
    ("operand-not-array", "out = jnp.arange(5)[[0, 2]].sum()", "jnp.arange(5)[jnp.asarray([0, 2])]", 2),
    ("operand-not-array", "jax.jit(lambda x, b=None: x * 2 + b)(jnp.ones(3))", "", 0),
]


@pytest.mark.parametrize(("rule", "body", "fix", "result"), KINDS)
def test_an_operand_of_another_kind_is_named_and_converted(rule: str, body: str, fix: str, result: int):
    program = failed(IMPORTS + body)
    assert program.finding.rule == rule
    assert program.finding.fix == fix
    assert not fix or program.fixed().namespace["out"] == result


def test_a_parameter_that_is_none_is_said_to_be_missing():
    program = failed(IMPORTS + "def layer(x, bias=None):\n    return x + bias\njax.jit(layer)(jnp.ones(3))")
    assert program.finding.title == "`bias` is None, where an array is needed"


def test_a_plate_of_another_size_than_its_distribution_is_named():
    program = failed(
        IMPORTS + "import numpyro, numpyro.distributions as dist\nfrom numpyro.handlers import seed\n"
        "def model(x):\n    with numpyro.plate('rows', 4):\n"
        "        return numpyro.sample('y', dist.Normal(x, 1.0), obs=x)",
        "seed(model, 0)(jnp.ones(5))",
    )
    assert program.finding.rule == "broadcast-shapes"
    assert program.finding.title == "the plate `rows` has size 4, but the distribution of `y` has batch shape (5,)"
    assert program.marked == "numpyro.sample('y', dist.Normal(x, 1.0), obs=x)"
