"""Which functions run in Python, in all the ways in which one can be reached."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax import lax
from jax.lax import scan as scan_by_another_name

import jaxmagic
from jaxmagic.core.nojit.scope import NoJitOptions
from jaxmagic.records import NoJit, Report

X = jnp.arange(4.0)
seen: list[Any] = []


def note(x: Any) -> Any:
    """Says what it met: only a function that runs in Python meets arrays."""
    seen.append(x)
    return jnp.sin(x)


def met() -> list[bool]:
    """For each call of `note`, whether it met a real array; grad and vmap without jit have one behind their tracers."""
    was, seen[:] = [type(x).__name__ != "DynamicJaxprTracer" for x in seen], []
    return was


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


def run(call: Callable[[], Any], *only: Any, **options: Any) -> tuple[Any, NoJit]:
    with jaxmagic.nojit(*only, **options) as recorder:
        result = call()
    assert isinstance(recorder.report, Report)
    assert recorder.report.nojit is not None
    return result, recorder.report.nojit


def names(record: NoJit) -> list[str]:
    return [each.name for each in record.functions]


# ------------------------------------------------------------------------------------------- everywhere


@jax.jit
def inner(x):
    return note(x) + 1


@jax.jit
def outer(x):
    return inner(x) * 2


def test_everywhere_each_jitted_function_runs_in_python():
    result, record = run(lambda: outer(X))
    assert met() == [True]
    assert names(record) == ["outer", "inner"]
    assert record.scope == "everywhere"
    assert jnp.allclose(result, (jnp.sin(X) + 1) * 2)


def test_functions_of_jax_stay_compiled():
    _, record = run(lambda: jax.nn.softmax(jnp.where(X > 1, X, 0)))
    assert record.functions == ()
    assert record.operations > 0


def test_what_was_compiled_before_is_not_compiled_again():
    outer(X)
    met()
    run(lambda: outer(X))
    outer(X)
    assert met() == [True]  # the run in between, and no trace after it


def test_a_function_first_called_without_jit_is_compiled_afterwards():
    @jax.jit
    def f(x):
        return note(x)

    run(lambda: f(X))
    f(X)
    f(X)
    assert met() == [True, False]


def test_jit_is_back_after_an_error():
    def fail():
        outer(X)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(fail)
    met()
    jax.jit(lambda x: note(x))(X)
    assert met() == [False]


def test_runs_can_be_nested():
    def both():
        with jaxmagic.nojit(inner):
            outer(X)
        return outer(X)

    run(both)
    assert met() == [True, True]
    jax.jit(lambda x: note(x))(X)
    assert met() == [False]


def test_a_decorator_runs_a_function_without_jit():
    @jaxmagic.nojit()
    def decorated(x):
        return outer(x)

    decorated(X)
    assert met() == [True]


def test_code_that_compiling_refuses_runs():
    @jax.jit
    def branches(x):
        return x if x.sum() > 0 else -x

    result, _ = run(lambda: branches(X))
    assert float(result.sum()) == 6.0


def test_static_and_donated_arguments_are_passed_on():
    @functools.partial(jax.jit, static_argnames="n", donate_argnums=0)
    def power(x, n):
        return note(x) ** n

    x = X + 0
    result, _ = run(lambda: power(x, n=2))
    assert jnp.allclose(result, jnp.sin(X) ** 2)
    assert not x.is_deleted()


def test_a_function_compiled_ahead_of_time_stays_compiled_and_that_is_said():
    compiled = jax.jit(note).lower(X).compile()
    met()
    with jaxmagic.nojit() as recorder:
        compiled(X)
    assert met() == []
    assert recorder.report is not None
    assert any("ahead of time" in line for line in recorder.report.limits)


# ------------------------------------------------------------------------------------------ only and except


def helper(x):
    return note(x) * 3


jitted_helper = jax.jit(helper)
helper_as_lambda = jax.jit(lambda x: note(x) * 4)


class Model:
    def __init__(self, scale):
        self.scale = scale

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, x):
        return self.layer(x) + 1

    def layer(self, x):
        return note(x) * self.scale


class Module(eqx.Module):
    weight: jax.Array

    @eqx.filter_jit
    def __call__(self, x):
        return self.layer(x)

    def layer(self, x):
        return note(x) * self.weight


class Linear(nnx.Module):
    def __init__(self):
        self.weight = nnx.Param(jnp.ones(4))

    def __call__(self, x):
        return note(x) * self.weight[...]


@nnx.jit
def apply(model, x):
    return model(x)


@eqx.filter_jit
def filtered(x, mode):
    return note(x) if mode == "sin" else x


def _in_a_library() -> Any:
    """A function of nobody's file, as a library's is not the user's."""
    space: dict[str, Any] = {"eqx": eqx, "__name__": "library"}
    text = "@eqx.filter_jit\ndef apply_twice(f, x):\n    return f(f(x))\n"
    exec(compile(text, eqx.__file__, "exec"), space)
    return space["apply_twice"]


apply_twice = _in_a_library()


def closure(scale):
    def scaled(x):
        return note(x) * scale

    return jax.jit(scaled)


closed = closure(2.0)
partial = jax.jit(functools.partial(lambda scale, x: note(x) * scale, 2.0))


@jax.jit
def calls_helper(x):
    return helper(x) + 1


@jax.jit
def scans_helper(x):
    return lax.scan(lambda carry, t: (carry + helper(t).sum(), t), 0.0, x)[0]


def body(carry, t):
    return carry + note(t).sum(), t


@jax.checkpoint
def block(x):
    return helper(x)


@jax.jit
def under_checkpoint(x):
    return jax.grad(lambda x: block(x).sum())(x)


@jax.jit
def scans_checkpoint(x):
    return lax.scan(jax.checkpoint(body), 0.0, x)[0]


class Unnamed:
    def __call__(self, x):
        return note(x) * 5


@jax.jit
def scans_what_no_name_leads_to(x):
    held = [Unnamed()]
    return lax.scan(lambda carry, t: (carry + held[0](t), t), 0.0, x)[0]


@eqx.filter_jit
def scans_layers(layers, x):
    arrays, rest = eqx.partition(layers, eqx.is_array)

    def layer(x, part):
        return eqx.filter_checkpoint(eqx.combine(part, rest).layer)(x), None

    return lax.scan(layer, x, arrays)[0]


model, module, layers = Model(2.0), Module(jnp.ones(4)), Module(jnp.ones((3, 4)))

FORMS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a jitted function": (lambda: jitted_helper(X), jitted_helper),
    "the function inside of a jit": (lambda: jitted_helper(X), helper),
    "a plain function that a jitted one calls": (lambda: calls_helper(X), helper),
    "a jitted lambda": (lambda: helper_as_lambda(X), helper_as_lambda),
    "the body of a scan in a jitted function": (lambda: scans_helper(X), helper),
    "the body of a scan": (lambda: lax.scan(body, 0.0, X), body),
    "a scan that was imported by name": (lambda: scan_by_another_name(body, 0.0, X), body),
    "a jitted method": (lambda: model.step(X), Model.step),
    "a bound method": (lambda: model.step(X), model.step),
    "a method that a jitted method calls": (lambda: model.step(X), Model.layer),
    "a closure": (lambda: closed(X), closed),
    "a partial": (lambda: partial(X), partial),
    "eqx.filter_jit": (lambda: filtered(X, "sin"), filtered),
    "a method under eqx.filter_jit": (lambda: module(X), Module.layer),
    "nnx.jit": (lambda: apply(Linear(), X), apply),
    "a module that nnx.jit calls": (lambda: apply(Linear(), X), Linear.__call__),
    "a function under checkpoint": (lambda: under_checkpoint(X), helper),
    "a function under eqx.filter_checkpoint": (
        lambda: eqx.filter_jit(lambda x: eqx.filter_checkpoint(helper)(x))(X),
        helper,
    ),
    "a function under nnx.remat": (lambda: nnx.jit(lambda x: nnx.remat(helper)(x))(X), helper),
    "the body of a scan under checkpoint": (lambda: scans_checkpoint(X), body),
    "a scan over Equinox layers": (lambda: scans_layers(layers, X), Module.layer),
    "what a scan's body calls by no name": (lambda: scans_what_no_name_leads_to(X), Unnamed.__call__),
    "a function under grad": (lambda: jax.grad(lambda x: jitted_helper(x).sum())(X), helper),
}


@pytest.mark.parametrize("form", FORMS)
def test_only_one_function_runs_in_python(form: str):
    call, function = FORMS[form]
    expected = call()
    met()
    result, record = run(call, function)
    assert any(met()), "it met no real value"
    assert record.unreached == ()
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, rtol=1e-6)), result, expected)))


@pytest.mark.parametrize("name", ["helper", "jitted_helper", "calls_helper", "Model.layer", "model.layer", "layer"])
def test_a_function_is_found_by_name(name: str):
    run(lambda: (calls_helper(X), jitted_helper(X), model.step(X)), name)
    assert any(met())


def test_everything_else_stays_compiled():
    @jax.jit
    def other(x):
        return note(x)

    run(lambda: (jitted_helper(X), other(X)), helper)
    assert met() == [True, False]


def test_loops_beside_the_function_stay_compiled():
    @jax.jit
    def both(x):
        beside = lax.scan(lambda carry, t: (carry + note(t), t), 0.0, x)[0]
        return beside + helper(x).sum()

    met()
    _, record = run(lambda: both(X), helper)
    assert met() == [False, True]
    assert record.traced == ()


def test_loops_in_the_function_run_in_python():
    @jax.jit
    def loops(x):
        return lax.scan(lambda carry, t: (carry + note(t), t), 0.0, x)[0]

    run(lambda: loops(X), loops)
    assert met() == [True] * 4


def test_a_library_function_that_was_given_a_users_function_is_called_by_its_own_name():
    def double(x):
        return note(x) * 2

    _, record = run(lambda: apply_twice(double, X))
    assert names(record) == ["apply_twice"]
    _, record = run(lambda: apply_twice(double, X), double)
    assert [(each.name, each.carrier) for each in record.functions] == [("apply_twice", True)]
    assert record.unreached == ()


def test_a_name_that_is_bound_anew_means_the_new_function():
    space: dict[str, Any] = {"jax": jax, "note": note, "jaxmagic": jaxmagic, "X": X}
    exec("f = jax.jit(lambda x: x)\nwith jaxmagic.nojit('f'):\n    f = jax.jit(lambda x: note(x))\n    f(X)", space)
    assert met() == [True]


def test_all_but_one_function_run_in_python():
    @jax.jit
    def other(x):
        return note(x)

    _, record = run(lambda: (jitted_helper(X), other(X)), excluded=[helper])
    assert record.scope == "everywhere but in helper"
    met()
    run(lambda: (jitted_helper(X), other(X)), excluded=[helper])
    assert met() == [True]


def test_a_name_that_no_function_has_is_said_with_those_like_it():
    _, record = run(lambda: jitted_helper(X), "helperr")
    assert record.unreached[0].startswith("helperr: no function of that name was met; did you mean helper or ")


def test_a_name_like_one_of_an_inner_function_that_was_met_is_corrected():
    def outside(x):
        def loss_of_step(x):
            return note(x)

        return loss_of_step(x)

    _, record = run(lambda: outside(X), "loss_of_stepp")
    assert "did you mean loss_of_step" in record.unreached[0]


def test_a_function_that_was_only_traced_says_by_what():
    def doubled(x):
        return note(x) * 2

    _, record = run(lambda: jax.eval_shape(doubled, X), doubled)
    assert "doubled was only traced, in " in record.unreached[0]


def test_a_function_of_jax_can_be_asked_for():
    _, record = run(lambda: jax.jit(lambda x: jnp.sin(x))(X), jnp.sin)
    assert record.unreached == ()
    assert [(each.name, each.carrier) for each in record.functions] == [("<lambda>", True), ("sin", False)]


def test_a_function_that_was_not_called_says_so():
    _, record = run(lambda: None, helper)
    assert record.unreached[0].startswith("helper was not called")


def test_only_and_except_exclude_each_other():
    with pytest.raises(ValueError, match="either"):
        NoJitOptions(only=(helper,), excluded=(note,))
