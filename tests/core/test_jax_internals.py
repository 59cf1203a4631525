"""Each private piece of JAX: it is there, it is called as we call it, and it does what we rely on."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxmagic.core import jax_internals
from jaxmagic.core.jax_internals import PIECES
from jaxmagic.core.wrapping import wrapped

ROOT = Path(__file__).parents[2]
SIGNATURES = {
    "infer_params": ["fun", "ji", "args", "kwargs"],
    "trace_init": ["self", "debug_info", "parent_trace", "lower"],
    "fast_path": ["executable", "out_tree", "args_flat", "out_flat"],
    "compiled_call": ["self", "args", "kwargs"],
}
"""The parameters with which each begins."""


def piece(key: str) -> Any:
    return getattr(PIECES[key].owner, PIECES[key].name)


def called(key: str, run: Callable[[], Any]) -> list[tuple[tuple, dict, Any]]:
    """Arguments and answer of every call of a piece."""
    calls = []

    def note(inner: Callable, *args: Any, **kwargs: Any) -> Any:
        answer = inner(*args, **kwargs)
        calls.append((args, kwargs, answer))
        return answer

    with wrapped(key, note):
        run()
    return calls


@pytest.mark.parametrize("key", PIECES)
def test_a_piece_is_present(key: str):
    assert PIECES[key].present, f"without it: {PIECES[key].lost}"


def test_no_piece_is_missing():
    assert jax_internals.missing() == {}


@pytest.mark.parametrize("key", SIGNATURES)
def test_a_piece_begins_with_the_parameters_that_we_pass(key: str):
    parameters = list(inspect.signature(piece(key)).parameters)
    assert parameters[: len(SIGNATURES[key])] == SIGNATURES[key]


def test_infer_params_answers_with_the_program_and_the_flat_arguments():
    x = jnp.ones(3)
    ((_, info, args, kwargs), _, (params, values)) = called("infer_params", lambda: jax.jit(lambda x: x)(x))[-1]
    assert args[0] is x
    assert kwargs == {}
    assert {"static_argnums", "static_argnames", "donate_argnums", "fun_signature"} <= set(info._fields)
    assert {"jaxpr", "donated_invars", "name"} <= set(params.params)
    assert (params.arg_names, len(params.in_avals)) == (("x",), 1)
    assert values[-1] is x


def test_call_impl_answers_with_the_results_and_the_executable():
    (args, params, answer) = called("call_impl", lambda: jax.jit(lambda x: x * 2)(jnp.ones(3)))[-1]
    assert {"jaxpr", "name", "donated_invars"} <= set(params)
    assert len(args) == len(answer[0]) == 1
    assert "fusion" in answer[1].as_text() or "multiply" in answer[1].as_text()


def test_resolve_and_lower_answers_with_what_gives_stablehlo():
    (_, params, computation) = called("resolve_and_lower", lambda: jax.jit(lambda x: x * 3)(jnp.ones(3)))[-1]
    assert "jaxpr" in params
    assert "stablehlo.multiply" in computation.as_text(dialect="stablehlo", debug_info=True)
    assert jax_internals.executable_of(computation) is not None


def test_a_trace_begins_once_for_each_function_traced_and_knows_its_arguments():
    begun: list[Any] = []
    arguments: list[Any] = []

    def note(inner: Callable, trace: Any, *args: Any, **kwargs: Any) -> None:
        inner(trace, *args, **kwargs)
        begun.append(trace)

    def f(x: jax.Array) -> jax.Array:
        arguments.extend(jax_internals.arguments_of_trace(begun[-1]))
        return x

    x = jnp.ones(3)
    with wrapped("trace_init", note):
        jax.jit(f)(x)
    assert [(name, aval.shape) for name, aval in arguments] == [("x", (3,))]
    assert len(begun) == 1


def test_trace_to_jaxpr_is_asked_for_the_bodies_of_loops():
    def body(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return carry + x, None

    calls = called("trace_to_jaxpr", lambda: jax.lax.scan(body, jnp.zeros(()), jnp.ones(3)))
    assert any(hasattr(answer[0], "eqns") for _, _, answer in calls)


def test_a_function_can_still_clear_its_cache_while_trace_to_jaxpr_is_wrapped():
    f: Any = jax.jit(lambda x: x)
    with wrapped("trace_to_jaxpr", lambda inner, *args, **kwargs: inner(*args, **kwargs)):
        f(jnp.ones(3))
        f.clear_cache()


def test_after_dispatch_is_forgotten_a_call_passes_through_python_once_and_traces_nothing():
    traced = []
    f = jax.jit(lambda x: (traced.append(1), x)[1])
    x = jnp.ones(3)
    f(x)
    assert called("infer_params", lambda: f(x)) == []
    jax_internals.forget_dispatch()
    assert len(called("infer_params", lambda: (f(x), f(x)))) == 1
    assert traced == [1]


def test_without_fast_path_data_every_call_passes_through_python():
    f = jax.jit(lambda x: x + 1)
    x = jnp.ones(3)
    f(x)
    with wrapped("fast_path", lambda *_, **__: None):
        jax_internals.forget_dispatch()
        assert len(called("infer_params", lambda: [f(x) for _ in range(3)])) == 3
    jax_internals.forget_dispatch()


def test_the_cache_of_traces_remembers_signatures():
    f = jax.jit(lambda x, n: x * n, static_argnums=1)
    f(jnp.ones(3), 7)
    fun = f._fun  # type: ignore[attr-defined]
    (key,) = jax_internals.earlier_traces()[id(fun)]
    earlier = jax_internals.earlier(key)
    assert earlier.function() is fun
    assert [aval.shape for aval in earlier.avals] == [(3,)]
    assert earlier.signature.static_args == [7]
    assert earlier.info is jax_internals.options_of_jit(f)


def test_the_traced_jaxpr_of_a_call_is_the_one_that_runs():
    f = jax.jit(lambda x: x + 1)
    (_, params, _) = called("call_impl", lambda: f(jnp.ones(3)))[-1]
    assert jax_internals.traced_jaxpr(f, (jnp.ones(3),), {}) is params["jaxpr"]


def test_a_function_compiled_ahead_of_time_tells_its_arguments():
    compiled = jax.jit(lambda x, s: x["a"] * s, donate_argnums=0).lower({"a": jnp.ones(3)}, s=jnp.ones(())).compile()
    found = jax_internals.arguments_of_compiled(compiled)
    assert [(path, aval.shape, donated) for path, aval, donated in found] == [
        ("args[0]['a']", (3,), True),
        ("s", (), False),
    ]
    assert jax_internals.executable_of(compiled) is not None


def test_the_place_after_a_call_is_called_with_function_arguments_and_result():
    state, seen = piece("post_hook"), []
    f = jax.jit(lambda x: x + 1)
    f(jnp.ones(3))
    before = state.get_local()
    state.set_local(lambda *call: seen.append(call))
    try:
        f(jnp.ones(3))
    finally:
        state.set_local(before)
    function, args, _, _ = seen[-1]
    assert function is f
    assert args[0].shape == (3,)


def test_the_function_that_runs_a_derived_program_names_its_jaxpr():
    state, seen, ran = piece("post_hook"), [], []
    f = jax.jit(lambda x: (x * x).sum())
    ran += [call[1]["jaxpr"] for call in called("call_impl", lambda: jax.grad(f)(jnp.ones(3)))]
    before = state.get_local()
    state.set_local(lambda function, *call: seen.append(jax_internals.jaxpr_behind(function)))
    try:
        jax.grad(f)(jnp.ones(3))
        jax.jit(jnp.sin)(1.0)
    finally:
        state.set_local(before)
    assert [each for each in seen if each is not None] == ran
    assert len(ran) == 2


def test_the_trace_context_names_the_options_and_follows_context_managers():
    with jax.default_matmul_precision("highest"):
        assert jax_internals.trace_context()["jax_default_matmul_precision"] == "highest"
    assert jax_internals.trace_context()["jax_default_matmul_precision"] is None


def test_levels_tell_the_transformations_around_the_code_that_runs():
    seen: list[list[str]] = []

    def f(x: jax.Array) -> jax.Array:
        seen.append([level.purpose for level in jax_internals.trace_levels()])
        return x.sum()

    jax.jit(jax.vmap(f))(jnp.ones((2, 3)))
    jax.grad(f)(jnp.ones(3))
    assert seen == [["vmap", "jit"], ["grad"]] or seen == [["vmap", "jit"], ["jvp"]]
    assert jax_internals.trace_levels() == []


def test_a_piece_that_is_replaced_comes_back_on_an_error():
    original = piece("infer_params")
    with pytest.raises(ZeroDivisionError), jax_internals.replaced("infer_params", None):
        raise ZeroDivisionError
    assert piece("infer_params") is original


def test_wrappers_are_taken_off_in_any_order():
    original, heard = piece("infer_params"), []

    def layer(name: str) -> Callable:
        return lambda inner, *args: (heard.append(name), inner(*args))[1]

    first, second = wrapped("infer_params", layer("first")), wrapped("infer_params", layer("second"))
    first.__enter__()
    second.__enter__()
    jax.jit(lambda x: x)(jnp.ones(3))
    assert heard[-2:] == ["second", "first"]
    first.__exit__(None, None, None)
    heard.clear()
    jax.jit(lambda x: x)(jnp.ones(3))
    assert set(heard) == {"second"}
    second.__exit__(None, None, None)
    assert piece("infer_params") is original


def test_importing_all_of_the_engine_leaves_functions_compiled_before_as_they_were():
    code = """
import importlib, pkgutil, jax, jax.numpy as jnp
traced = []
f = jax.jit(lambda x: (traced.append(1), x)[1])
x = jnp.ones(3)
f(x)
import jaxmagic.core
for module in pkgutil.walk_packages(jaxmagic.core.__path__, "jaxmagic.core."):
    importlib.import_module(module.name)
jaxmagic.core.jax_internals.forget_dispatch()
f(x)
assert traced == [1], "an import changed the key of JAX's trace cache"
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
