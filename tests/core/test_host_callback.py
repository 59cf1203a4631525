"""The old `host_callback` on today's JAX: the same calls, with NumPy arrays on the host."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmagic.core import host_callback as hcb
from jaxmagic.core import host_calls, jax_internals
from jaxmagic.core.source.spans import text_of


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def looked(seen: list[Any]) -> Any:
    """A host function that notes what it gets and returns its double."""

    def look(x: Any) -> Any:
        assert type(x) is np.ndarray
        seen.append(x.tolist())
        return x * 2

    return look


def test_what_the_host_function_returns_flows_on(looked: Any, seen: list[Any]):
    result = jax.jit(lambda x: hcb.call(looked, x + 1) + 1)(jnp.arange(3.0))
    assert result.tolist() == [3.0, 5.0, 7.0]
    assert seen == [[1.0, 2.0, 3.0]]


def test_a_function_that_returns_nothing_leaves_the_value(seen: list[Any]):
    result = jax.jit(lambda x: hcb.call(seen.append, x) + 1)(jnp.arange(3.0))
    assert result.tolist() == [1.0, 2.0, 3.0]


def test_pytrees_come_as_pytrees(seen: list[Any]):
    def swap(tree: Any) -> Any:
        seen.append(jax.tree.map(type, tree))
        return {"a": tree["b"], "b": tree["a"]}

    result = jax.jit(lambda x: hcb.call(swap, {"a": x, "b": x + 1}))(1.0)
    assert {name: float(value) for name, value in result.items()} == {"a": 2.0, "b": 1.0}
    assert seen == [{"a": np.ndarray, "b": np.ndarray}]


@pytest.mark.parametrize(
    "shape", [jax.ShapeDtypeStruct((), jnp.float32), np.float32(0), 0.0], ids=["struct", "numpy", "python"]
)
def test_a_result_of_another_shape_is_announced(shape: Any):
    result = jax.jit(lambda x: hcb.call(lambda v: v.sum(), x, result_shape=shape))(jnp.arange(4.0))
    assert (result.shape, result.dtype, float(result)) == ((), jnp.float32, 6.0)


def test_no_result_is_the_empty_tuple(seen: list[Any]):
    def note(x: Any) -> tuple[()]:
        seen.append(x.tolist())
        return ()

    assert jax.jit(lambda x: hcb.call(note, x, result_shape=()))(2.0) == ()
    hcb.barrier_wait()
    assert seen == [2.0]


def test_every_step_of_a_scan_calls_it_in_order(looked: Any, seen: list[Any]):
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return hcb.call(looked, carry + x), carry

    total, _ = jax.jit(lambda xs: jax.lax.scan(step, 0.0, xs))(jnp.arange(3.0))
    assert float(total) == 8.0
    assert seen == [0.0, 1.0, 4.0]


@pytest.mark.parametrize("wrap", [jax.vmap, lambda f: jax.jit(jax.vmap(f)), lambda f: jax.vmap(jax.jit(f))])
def test_under_vmap_it_is_called_once_for_each_example(wrap: Any, looked: Any, seen: list[Any]):
    result = wrap(lambda x: hcb.call(looked, x))(jnp.arange(3.0))
    assert result.tolist() == [0.0, 2.0, 4.0]
    assert sorted(seen) == [0.0, 1.0, 2.0]


def test_a_call_can_not_be_differentiated_and_says_what_to_do(looked: Any):
    with pytest.raises(NotImplementedError, match=r"can't be differentiated.*stop_gradient"):
        jax.grad(lambda x: hcb.call(looked, x))(1.0)


def test_a_call_beside_the_differentiated_path_is_a_constant(looked: Any):
    assert float(jax.grad(lambda x: x * hcb.call(looked, jax.lax.stop_gradient(x)))(3.0)) == 6.0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x[:2], r"returned shape \(2,\), not \(3,\)"),
        (lambda x: x * 1j, "returned dtype complex64, not float32"),
        (lambda x: (x, x), r"returned PyTreeDef\(\(\*, \*\)\), not PyTreeDef\(\*\)"),
    ],
    ids=["shape", "dtype", "structure"],
)
def test_a_result_that_does_not_fit_is_an_error_that_names_the_call(function: Any, said: str):
    def bad(x: Any) -> Any:
        return hcb.call(function, x)

    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"host_callback.call at line \d+ of bad\(\) {said}"):
        jax.block_until_ready(jax.jit(bad)(jnp.arange(3.0)))
    jax_internals.forget_effects()


def test_a_tap_sees_the_value_and_returns_it(seen: list[Any]):
    def tap(x: Any, transforms: Any) -> None:
        seen.append((x.tolist(), transforms))

    assert float(jax.jit(lambda x: hcb.id_tap(tap, x) + 1)(1.0)) == 2.0
    assert float(jax.jit(lambda x: hcb.id_tap(tap, x, result=x * 5))(2.0)) == 10.0
    hcb.barrier_wait()
    assert seen == [(1.0, ()), (2.0, ())]


def test_derivatives_pass_a_tap(seen: list[Any]):
    def f(x: Any) -> Any:
        return jnp.sin(hcb.id_tap(lambda value, _: seen.append(float(value)), x))

    assert float(jax.jit(jax.grad(f))(0.0)) == 1.0
    assert float(jax.grad(jax.checkpoint(f))(0.0)) == 1.0
    hcb.barrier_wait()
    assert set(seen) == {0.0}


def test_a_tap_under_vmap_sees_each_example(seen: list[Any]):
    jax.jit(jax.vmap(lambda x: hcb.id_tap(lambda value, _: seen.append(float(value)), x)))(jnp.arange(3.0))
    hcb.barrier_wait()
    assert sorted(seen) == [0.0, 1.0, 2.0]


def test_printing_shows_the_keywords_and_the_value(capfd: pytest.CaptureFixture[str]):
    assert float(jax.jit(lambda x: hcb.id_print(x, what="x", epoch=3))(1.5)) == 1.5
    jax.jit(lambda x: hcb.id_print((x, x + 1), result=x))(1.5)
    hcb.barrier_wait()
    assert capfd.readouterr().out.splitlines() == ["epoch: 3  what: x", "1.5", "('1.5', '2.5')"]


@pytest.fixture
def installed() -> Iterator[None]:
    hcb.install()
    yield
    hcb.remove()


@pytest.mark.usefixtures("installed")
def test_the_old_imports_work_while_it_is_installed():
    import jax.experimental.host_callback as first  # pyright: ignore[reportMissingImports]
    from jax.experimental import host_callback as second  # pyright: ignore[reportAttributeAccessIssue]
    from jax.experimental.host_callback import call, id_print, id_tap  # pyright: ignore[reportMissingImports]

    assert first is second is hcb
    assert (call, id_print, id_tap) == (hcb.call, hcb.id_print, hcb.id_tap)
    with pytest.raises(AttributeError, match="brings back barrier_wait, call, id_print, id_tap, not 'outfeed'"):
        _ = first.outfeed


def test_nothing_is_left_once_it_is_removed():
    hcb.install()
    hcb.remove()
    assert hcb.NAME not in sys.modules
    assert not hasattr(jax.experimental, "host_callback")


def test_a_jax_that_still_has_its_own_keeps_it(tmp_path: Any):
    (tmp_path / "host_callback.py").write_text("own = True\n")
    script = (
        f"import jax.experimental; jax.experimental.__path__.append({str(tmp_path)!r})\n"
        "from jaxmagic.core import host_callback; host_callback.install()\n"
        "from jax.experimental import host_callback as found; print(found.own)\n"
        "host_callback.remove(); print(found is __import__('sys').modules['jax.experimental.host_callback'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nTrue\n"


def test_each_use_is_noted_with_its_place(looked: Any):
    uses: list[host_calls.Use] = []
    with host_calls.noted(uses.append):
        jax.jit(lambda x: hcb.call(looked, x))(1.0)
    hcb.id_print(1.0)
    assert [(use.function, text_of(use.span)) for use in uses] == [("call", "hcb.call(looked, x)")]
