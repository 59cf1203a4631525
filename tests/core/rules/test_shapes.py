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
    assert program.finding.title == "layer `self.layers[0]` (Linear) got f32[5,3], but takes 3 features"
    assert program.finding.fix == "jax.vmap(layer)(x)"
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
