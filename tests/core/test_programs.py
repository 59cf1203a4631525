import ast
import linecache
import os
import subprocess
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import msgspec
import pytest
from jax.extend.core import Primitive

from jaxmagic.core.programs.programs import program
from jaxmagic.core.programs.trimming import size, trimmed
from jaxmagic.core.source.policy import Policy
from jaxmagic.records import Equation, Program, Region, Span
from tests.core.sample_programs import SAMPLES, clipped, traced


def converted(function, *arguments, **options) -> Program:
    jaxpr = jax.jit(function).trace(*arguments).jaxpr
    return program(jaxpr, is_user=Policy().is_user, **options)


def regions(region: Region) -> Iterator[Region]:
    yield region
    for equation in region.equations:
        for inner in equation.regions:
            yield from regions(inner)


def equations(shown: Program, primitive: str = "") -> list[Equation]:
    found = [equation for region in regions(shown.root) for equation in region.equations]
    return [equation for equation in found if primitive in ("", equation.primitive)]


def text_of(span: Span) -> str:
    lines = [line.encode() for line in linecache.getlines(span.file)[span.line - 1 : span.end_line]]
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return b"".join(lines).decode()


def stack(shown: Program, equation: Equation) -> list[str]:
    """Texts of the frames of an equation, innermost first."""
    texts, index = [], equation.frame
    while index >= 0:
        texts.append(text_of(shown.frames[index].span))
        index = shown.frames[index].parent
    return texts


def counted(jaxpr) -> int:
    parameters = [dict(equation.params) for equation in jaxpr.eqns]
    leaves = jax.tree.leaves(parameters, is_leaf=lambda leaf: hasattr(leaf, "eqns"))
    return len(jaxpr.eqns) + sum(counted(leaf) for leaf in leaves if hasattr(leaf, "eqns"))


def assert_defined_before_use(region: Region, ids: set[int]) -> None:
    known = {variable.id for variable in (*region.inputs, *region.constants)}
    for equation in region.equations:
        assert {atom for atom in equation.ins if isinstance(atom, int)} <= known
        outs = {out.id for out in equation.outs}
        assert not outs & known
        known |= outs
        for inner in equation.regions:
            assert_defined_before_use(inner, ids)
    assert {atom for atom in region.outputs if isinstance(atom, int)} <= known
    assert not known & ids, "numbers are unique in a program"
    ids |= known


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request):
    """A sample's jaxpr and program."""
    jaxpr = traced(request.param)
    return jaxpr, program(jaxpr, is_user=Policy().is_user)


def test_every_equation_of_every_region_is_there(sample):
    jaxpr, shown = sample
    assert shown.equations == counted(jaxpr) == size(shown.root) > 0


def test_variables_are_numbered_once_and_defined_before_use(sample):
    assert_defined_before_use(sample[1].root, set())


def test_spans_are_whole_expressions_of_the_source(sample):
    for frame in sample[1].frames:
        text = text_of(frame.span)
        node = ast.parse(f"({text}\n)" if "=" not in text.partition("(")[0] else text).body[0]
        assert isinstance(node, ast.Expr | ast.AugAssign), text


@pytest.mark.parametrize("name", ["mlp training step", "scan of while of cond", "remat", "NNX transformer block"])
def test_every_equation_of_code_that_the_user_wrote_knows_its_line(name):
    found = equations(program(traced(name), is_user=Policy().is_user))
    assert [equation for equation in found if equation.frame < 0] == []


def test_a_program_survives_json(sample):
    assert msgspec.json.decode(msgspec.json.encode(sample[1]), type=Program) == sample[1]


@pytest.mark.parametrize("most", [0, 1, 2, 7, 30, 10**6])
def test_trimming_hides_the_middle_and_counts_it(sample, most):
    whole, less = sample[1], trimmed(sample[1], most)
    assert size(less.root) <= most
    assert size(less.root) + sum(region.hidden for region in regions(less.root)) == whole.equations == less.equations
    if most >= 4:
        assert less.root.equations[0].primitive == whole.root.equations[0].primitive
        assert less.root.equations[-1].primitive == whole.root.equations[-1].primitive
    assert less.expressions == whole.expressions


def test_an_equation_points_at_what_was_written():
    shown = program(traced("mlp training step"), is_user=Policy().is_user)
    by_primitive = {"tanh": 'jnp.tanh(x @ params["w1"] + params["b1"])', "dot_general": 'x @ params["w1"]'}
    for primitive, text in by_primitive.items():
        first = equations(shown, primitive)[0]
        assert stack(shown, first) == [text, "jax.value_and_grad(mlp_loss)(params, x, y)"]


def test_the_backward_pass_points_at_the_forward_line():
    shown = program(traced("mlp training step"), is_user=Policy().is_user)
    backward = [each for each in equations(shown, "dot_general") if "transpose" in each.name_stack]
    assert {stack(shown, each)[0] for each in backward} == {'x @ params["w1"]', 'hidden @ params["w2"]'}


def test_regions_say_what_they_are():
    shown = program(traced("scan of while of cond"), is_user=Policy().is_user, name="collatz")
    kinds = {region.kind for region in regions(shown.root)}
    assert {"jit", "scan body", "while condition", "while body", "cond branch 0", "cond branch 1"} <= kinds
    assert (shown.root.kind, shown.root.name) == ("jit", "collatz")
    assert {region.name for region in regions(shown.root) if region.kind == "while body"} == {"halved_or_tripled"}


@pytest.mark.parametrize(
    ("function", "kind", "name"),
    [
        (jax.nn.relu, "custom_jvp", "relu"),
        (clipped, "custom_vjp", "clipped"),
        (jax.checkpoint(jnp.sin), "remat", "sin"),
    ],
)
def test_rules_of_derivatives_and_remat_are_regions(function, kind, name):
    shown = converted(lambda x: function(x), 1.0)
    assert name in {region.name for region in regions(shown.root) if region.kind == kind}


def test_inputs_carry_the_arguments_names_and_outputs_the_results():
    root = program(traced("mlp training step"), is_user=Policy().is_user).root
    assert [variable.name for variable in root.inputs] == ["params['b1']", "params['w1']", "params['w2']", "x", "y"]
    named: dict[int | str, str] = {out.id: out.name for equation in root.equations for out in equation.outs if out.name}
    assert [named[output] for output in root.outputs] == [
        "result[0]",
        "result[1]['b1']",
        "result[1]['w1']",
        "result[1]['w2']",
    ]


def test_a_library_function_is_put_down_to_each_line_that_calls_it():
    def twice(x):
        positive = jnp.where(x > 0, x, 0.0)
        return jnp.where(positive > 1, positive, 1.0)

    shown = converted(twice, jnp.ones(3))
    lines = [stack(shown, each) for each in equations(shown, "select_n")]
    assert lines == [["jnp.where(x > 0, x, 0.0)"], ["jnp.where(positive > 1, positive, 1.0)"]]


def test_a_helper_called_twice_appears_under_each_caller():
    @jax.jit
    def helper(x):
        return jnp.sin(x)

    def outer(x):
        first = helper(x)
        return first + helper(first)

    shown = converted(outer, jnp.ones(3))
    assert [stack(shown, each) for each in equations(shown, "sin")] == [
        ["jnp.sin(x)", "helper(x)"],
        ["jnp.sin(x)", "helper(first)"],
    ]


def test_frames_end_at_the_jitted_function():
    def inner(x):
        return jnp.sin(x)

    shown = converted(inner, jnp.ones(3))
    assert {frame.function.rpartition(".")[2] for frame in shown.frames} == {"inner"}


def test_parameters_are_short_and_without_noise():
    def several(x):
        y = jax.lax.scan(lambda c, row: (c + row, c), x[0], x)[0]
        return (x @ y).astype(jnp.int32)

    shown = converted(several, jnp.ones((3, 3)))
    (dot,) = equations(shown, "dot_general")
    assert dot.params == "dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=float32"
    (convert,) = equations(shown, "convert_element_type")
    assert convert.params == "new_dtype=int32"
    (scan,) = equations(shown, "scan")
    assert "length=3" in scan.params
    assert not any(noise in scan.params for noise in ("jaxpr", "linear", "reverse", "ft_in", "lambda"))


def test_literals_are_short():
    shown = converted(lambda x: (x * 2.5 + 1, x > -jnp.inf, x.astype(int) + 3), jnp.ones(2))
    literals = {atom for equation in equations(shown) for atom in equation.ins if isinstance(atom, str)}
    assert {"2.5:f32[]", "1.0:f32[]", "-inf:f32[]", "3:i32[]"} <= {each.removesuffix("*") for each in literals}


def test_a_users_own_parameter_is_named_without_running_its_repr():
    class Loud:
        def __repr__(self):
            raise AssertionError

    primitive = Primitive("loud")
    primitive.def_abstract_eval(lambda x, **_: x)
    shown = converted(lambda x: primitive.bind(x, setting=Loud(), rate=0.5), jnp.ones(2))
    assert equations(shown, "loud")[0].params == "setting=<Loud>, rate=0.5"


def test_named_scopes_and_transformations_are_kept():
    def scoped(x):
        with jax.named_scope("head"):
            return jnp.sin(x)

    (sine,) = equations(converted(scoped, 1.0), "sin")
    assert sine.name_stack == "head"
    assert any("transpose" in each.name_stack for each in equations(converted(jax.grad(scoped), 1.0)))


def test_an_expression_under_grad_shows_its_result_not_what_is_saved_for_the_backward_pass():
    def loss(w, x):
        attention = jax.nn.softmax(x @ w)
        return jnp.sum(attention @ x.T)

    shown = converted(jax.grad(loss), jnp.ones((4, 4)), jnp.ones((3, 4)))
    values = {text_of(each.span): " ".join(map(str, each.avals)) for each in shown.expressions}
    assert values["jax.nn.softmax(x @ w)"] == "f32[3,4]"
    assert values["x @ w"] == "f32[3,4]"
    assert values["jnp.sum(attention @ x.T)"] == "f32[]"
    assert values["x.T"] == "f32[4,3]"


def test_an_expression_under_grad_names_the_variable_that_holds_its_result():
    def loss(w, x):
        hidden = jax.nn.relu(x @ w)
        return jnp.sum(hidden @ w.T)

    shown = converted(jax.value_and_grad(loss), jnp.ones((4, 5)), jnp.ones((3, 4)))
    (relu,) = (each for each in shown.expressions if text_of(each.span) == "jax.nn.relu(x @ w)")
    (call,) = equations(shown, "custom_jvp_call")
    assert relu.variables == tuple(out.id for out in call.outs)


def test_a_call_of_a_function_shows_what_it_returned():
    def layer(x):
        return jnp.tanh(x @ x.T)

    shown = converted(lambda x: layer(x).sum(), jnp.ones((2, 3)))
    values = {text_of(each.span): [str(aval) for aval in each.avals] for each in shown.expressions}
    assert values["layer(x)"] == ["f32[2,2]"]
    assert values["layer(x).sum()"] == ["f32[]"]


def test_functions_that_double_at_each_level_are_counted_not_expanded():
    def doubled(level):
        if level == 0:
            return jax.jit(jnp.sin)
        inner = doubled(level - 1)
        return jax.jit(lambda x: inner(inner(x)))

    shown = converted(doubled(20), 1.0, most=1_000)
    assert size(shown.root) <= 1_000
    assert size(shown.root) + sum(region.hidden for region in regions(shown.root)) == shown.equations > 2**20


def test_deep_nesting_is_cut_not_followed():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        function = jnp.sin
        for _ in range(90):
            function = jax.jit(lambda x, inner=function: inner(x) + 1)
        jaxpr = jax.jit(function).trace(1.0).jaxpr
    finally:
        sys.setrecursionlimit(limit)
    shown = program(jaxpr, is_user=Policy().is_user)
    deepest = [region for region in regions(shown.root) if region.hidden]
    assert len(deepest) == 1
    assert shown.equations == size(shown.root) + deepest[0].hidden
    assert msgspec.json.decode(msgspec.json.encode(shown), type=Program) == shown


def test_shard_map_and_pmap_on_eight_devices_are_regions():
    code = """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxmagic.core.programs.programs import program
mesh = jax.sharding.Mesh(jax.devices(), ("x",))
sharded = jax.shard_map(lambda x: jax.lax.psum(jnp.sin(x), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
shown = program(jax.jit(sharded).trace(jnp.ones(16)).jaxpr, is_user=lambda file: file == "<string>")
(equation,) = shown.root.equations
(region,) = equation.regions
print(equation.primitive, region.kind, [str(v.aval) for v in region.inputs], len(region.equations), sep=" | ")
print("in_specs=(P('x'),)" in equation.params, region.equations[0].frame >= 0)
mapped = jax.make_jaxpr(jax.pmap(lambda x: x * 2))(jnp.ones((8, 2)))
kinds = {r.kind for e in program(mapped, is_user=bool).root.equations for r in e.regions}
print(bool(kinds & {"pmap", "jit"}))
"""
    options = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **options}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first.startswith("shard_map | shard_map | ['f32[2]")
    assert (second, third) == ("True True", "True")
