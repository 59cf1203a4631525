"""Values that are replaced on their way, by an expression or by a host function."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmagic.core.failures.explain import explain
from jaxmagic.core.placed import Placed
from jaxmagic.core.source.spans import text_of
from tests.core.tapped_programs import body, cumulate, layer, mean_square, product
from tests.core.tapping import tap


@pytest.fixture
def params():
    return {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), jnp.ones(3)]}


def test_a_replaced_value_flows_on():
    def function(x):
        y = x * 2
        z = y + 1
        return z

    tapped = tap("z", jax.jit(function), 1.0, replace={"y": lambda x: x * 100})
    assert float(tapped.result) == 201.0
    assert tapped.values("z").tolist() == [201.0]


def test_a_replaced_value_is_differentiated():
    def function(x):
        y = x * 2
        z = y * y
        return z

    assert float(tap("", jax.jit(jax.grad(function)), 1.0, replace={"y": lambda x: 3 * x}).result) == 72.0


def test_a_value_is_replaced_in_a_scan_under_vmap():
    function = jax.jit(jax.vmap(cumulate))
    tapped = tap("d", function, jnp.ones((2, 3)), replace={"body.c": lambda x: x * 0})
    assert tapped.result.tolist() == [1.0, 1.0]


def test_a_scalar_stands_for_an_array_full_of_it():
    def function(x):
        y = x * 2
        return y + 1

    assert tap("q", jax.jit(function), jnp.ones(3), replace={"y": lambda x: 5}).result.tolist() == [6.0] * 3


def test_a_leaf_of_a_container_is_replaced_in_a_copy(params):
    tapped = tap("y", jax.jit(layer), params, jnp.ones(2), replace={"params['w']": jnp.zeros_like})
    assert tapped.result.tolist() == [1.0, 1.0, 1.0]
    assert params["w"].tolist() == [[1.0] * 3] * 2


def test_an_attribute_is_replaced_where_it_is_stored():
    class Model:
        def run(self, x):
            self.h = x * 2
            z = self.h + 1
            return z

    model = Model()
    assert float(tap("z", model.run, jnp.ones(()), replace={"self.h": lambda x: x * 10}).result) == 21.0
    assert float(model.h) == 20.0


def in_global(x):
    global kept
    kept = x * 2
    z = kept + 1
    return z


def test_a_global_is_replaced():
    assert float(tap("z", in_global, jnp.ones(()), replace={"kept": lambda x: x * 10}).result) == 21.0


def test_a_key_is_replaced_and_shown_to_the_host():
    def draw(key):
        first, second = jax.random.split(key)
        n = jax.random.normal(first, (2,))
        return n, second

    seen = []
    plain, _ = draw(jax.random.key(0))
    tapped = tap("first", jax.jit(draw), jax.random.key(0), call=lambda data: seen.append(data))
    assert (tapped.result[0].tolist(), seen[0].dtype, seen[0].shape) == (plain.tolist(), np.uint32, (2,))
    tapped = tap("q", jax.jit(draw), jax.random.key(0), replace={"first": lambda x: jax.random.key(7)})
    assert tapped.result[0].tolist() == jax.random.normal(jax.random.key(7), (2,)).tolist()


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (lambda x: jnp.ones(4), r"the value set for y at line \d+ of function\(\) has shape \(4,\), not \(3,\)"),
        (lambda x: x > 0, None),
        (lambda x: x * 1j, r"the value set for y at line \d+ of function\(\) has dtype complex64, not float32"),
        (lambda x: x.nothing, r"y f32\[3\] at line \d+ of function\(\) can't be computed: AttributeError: .*nothing"),
    ],
    ids=["shape", "a dtype that fits", "dtype", "error"],
)
def test_a_value_that_does_not_fit_is_an_error_with_the_line(new, message: str | None):
    def function(x):
        y = x * 2
        return y + 1

    tapped = tap("q", jax.jit(function), jnp.ones(3), replace={"y": new})
    if message is None:
        assert tapped.error is None
    else:
        with pytest.raises(Exception, match=message):
            raise tapped.error or AssertionError


def same_line(x):
    y = x * 2; z = y + 1  # fmt: skip  # noqa: E702
    return z


def returns(x):
    y = x * 2
    return y + 1


def returns_a_variable(x):
    y = x * 2
    return y


@pytest.mark.parametrize(
    ("function", "replace", "rule", "says"),
    [
        (same_line, "y", "tap-used-on-its-line", "Put what comes after `y` on a line of its own."),
        (returns, "returns", "tap-return-not-editable", "Give the value a name, and ask for `returns.out`."),
        (returns, "returns.return", "tap-return-not-editable", "Give the value a name"),
        (returns_a_variable, "returns_a_variable", "tap-return-not-editable", "Ask for `returns_a_variable.y`"),
        (lambda x: [y + 1 for y in [x * 2]], "y", "tap-name-unknown", "the variables of a comprehension"),
    ],
)
def test_what_can_not_be_replaced_is_said_with_what_to_write(function, replace: str, rule: str, says: str):
    if rule == "tap-name-unknown" and sys.version_info < (3, 12):
        pytest.skip("a comprehension is a function of its own there")
    tapped = tap("x", jax.jit(function), 1.0, replace={replace: lambda x: x * 0})
    (finding,) = tapped.taps.findings()
    assert (finding.rule, says in finding.explanation) == (rule, True), finding
    if function is returns:
        assert finding.fix == "out = y + 1\nreturn out"


def test_a_gradient_of_what_a_function_returns_is_said_to_be_out_of_reach():
    (finding,) = tap("returns", jax.jit(jax.grad(returns)), 1.0, grad=True).taps.findings()
    assert finding.title == "what `returns()` returns was not watched for its gradient: it is in no variable"


def test_a_name_that_is_replaced_in_several_functions_is_said():
    def inner(params):
        s = params["w"].sum()
        return s

    def outer(params):
        s = inner(params)
        return s

    tapped = tap("s", jax.jit(outer), {"w": jnp.ones(2)}, replace={"params['w']": lambda x: x / 2})
    (finding,) = tapped.taps.findings()
    assert (finding.rule, float(tapped.result)) == ("tap-set-in-several-functions", 0.5)
    name = "test_a_name_that_is_replaced_in_several_functions_is_said"
    assert finding.explanation.endswith("`--set outer.params['w']=…` replaces it in one only."), name


def test_a_name_to_replace_that_was_not_found_is_told():
    tapped = tap("q", jax.jit(mean_square), jnp.ones((2, 2)), jnp.ones((3, 2)), replace={"losss": lambda x: x})
    assert tapped.taps.unknown()["losss"] == ("loss",)


def test_what_a_host_function_returns_flows_on():
    seen = []

    def double(value):
        seen.append(value)
        return value * 2

    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=double)
    assert float(tapped.result) == 14.0
    assert [float(value) for value in seen] == [1.0, 3.0, 7.0]
    assert isinstance(seen[0], np.ndarray | np.generic)


def test_a_host_function_may_only_look():
    seen = []
    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=lambda value: seen.append(float(value)))
    assert (float(tapped.result), seen) == (3.0, [1.0, 2.0, 3.0])


def test_a_host_function_is_called_for_each_lane():
    seen = []
    tapped = tap(
        "d", jax.jit(jax.vmap(lambda x: body(x, 1.0)[0])), jnp.arange(3.0), call=lambda v: seen.append(v.shape)
    )
    assert seen == [(), (), ()]
    assert tapped.result.tolist() == [1.0, 2.0, 3.0]


def test_the_gradient_through_a_host_function_is_zero():
    def function(x):
        y = x * 2
        return y + x

    tapped = tap("y", jax.jit(jax.grad(function)), 1.0, call=lambda value: value)
    assert float(tapped.result) == 1.0
    (finding,) = tapped.taps.findings()
    assert finding.title == "the gradient through `y` in `function()` is zero in this run"
    assert tap("y", jax.jit(function), 1.0, call=lambda value: value).taps.findings() == ()


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f: jax.jit(jax.grad(f)), 2 * 2 * 2 * 6.0),
        (lambda f: lambda c: jax.jit(jax.vmap(jax.grad(f)))(c * jnp.ones(2))[1], 2 * 2 * 2 * 6.0),
        (lambda f: jax.jit(jax.grad(lambda c: jax.vmap(f)(c * jnp.ones(2)).sum())), 2 * 2 * 2 * 2 * 6.0),
        (lambda f: jax.grad(jax.checkpoint(f)), 2 * 2 * 2 * 6.0),
        (lambda f: lambda c: jax.jvp(f, (c,), (1.0,))[1], 2 * 2 * 2 * 6.0),
    ],
    ids=["grad", "vmap of grad", "grad of vmap", "remat", "jvp"],
)
def test_what_is_set_in_a_scan_is_differentiated_under_any_transformation(transform, expected: float):
    function = transform(lambda c: lax.scan(product, c, jnp.array([1.0, 2.0, 3.0]))[0])
    assert float(tap("q", function, 1.0, replace={"y": lambda x: 2 * x}).result) == expected


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda value: np.ones(3), r"returned shape \(3,\) for d f32\[\] at line \d+ of body\(\), not \(\)"),
        (lambda value: 1j, r"returned dtype complex128 for d f32\[\] at line \d+ of body\(\), not float32"),
        (lambda value: 1 / 0, "division by zero"),
    ],
    ids=["shape", "dtype", "error"],
)
def test_a_bad_return_from_the_host_is_an_error_at_the_users_line(function, message: str):
    tapped = tap("d", jax.jit(cumulate), jnp.ones(3), call=function)
    with pytest.raises(Exception, match=message):
        raise tapped.error or AssertionError
    assert float(jax.jit(cumulate)(jnp.ones(3))) == 3.0


WAYS = {
    "python": lambda f: lambda x: f(x),
    "jit": jax.jit,
    "vmap": lambda f: lambda x: jax.vmap(f)(x[None])[0],
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "jit of vmap": lambda f: jax.jit(lambda x: jax.vmap(f)(x[None])[0]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"call": lambda value: np.ones(7)}, "the host function returned shape (7,)"),
        ({"replace": {"y": lambda x: jnp.ones(7)}}, "the value set for y"),
        ({"stop_when": "x > 1"}, "stopped because 'x > 1' holds for y"),
    ],
    ids=["call", "set", "stop"],
)
def test_an_error_is_explained_at_the_line_it_is_about(way: str, options: dict, said: str):
    def function(x):
        y = x * 2

        return y + 1

    tapped = tap("y", WAYS[way](function), jnp.ones(3), **options)
    assert said in str(tapped.error)
    assert isinstance(tapped.error, Placed)
    failure = explain(tapped.error)
    assert failure.span is not None
    assert text_of(failure.span) == "y = x * 2"
    assert failure.frames[0].function.endswith("function")
    assert [frame.parent for frame in failure.frames] == [*range(1, len(failure.frames)), -1]


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_of_the_host_function_reaches_the_user(way: str):
    def function(x):
        y = x * 2
        return y + 1

    def host(value):
        raise KeyError("mine")

    tapped = tap("y", WAYS[way](function), jnp.ones(3), call=host)
    assert isinstance(tapped.error, KeyError)
    assert float(jax.jit(lambda x: x + 1)(1.0)) == 2.0
