"""Programs over eight devices, which have to be asked for before JAX starts: in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
SETUP = """
    from jax.sharding import NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jnp.ones(8)
    sharded = jax.device_put(x, NamedSharding(mesh, P("d")))
    def double(x):
        return x * 2
"""


def on_eight_devices(body: str) -> None:
    code = f"from tests.core.captures import *\nnotebook = Notebook()\nnotebook.run({dedent(SETUP)!r})\n{dedent(body)}"
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | flags, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_pmap_is_seen_under_the_name_of_its_function():
    on_eight_devices("""
        seen = notebook.trace("jax.pmap(double)(x)")
        pmap = seen.of("double", "pmap")
        assert pmap.span.line == 5, pmap.span
        assert pmap.calls == 1
    """)


def test_shard_map_inside_jit_has_its_shardings():
    on_eight_devices("""
        cell = "jax.jit(jax.shard_map(double, mesh=mesh, in_specs=P('d'), out_specs=P('d')))(sharded)"
        trace = notebook.trace(cell).only("double")
        assert inputs(trace) == ["x: f32[8] P('d')"], inputs(trace)
        assert outputs(trace) == [": f32[8] P('d')"], outputs(trace)
    """)


def test_shard_map_outside_of_jit_says_what_that_costs():
    on_eight_devices("""
        cell = "jax.shard_map(double, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(sharded)"
        traces = notebook.trace(cell).of("shard_map", "shard_map").traces
        assert len(traces) > 1
        assert "one operation at a time" in str(traces[0].reason)
    """)


def test_another_sharding_is_the_reason_for_another_program():
    on_eight_devices("""
        notebook.run("f = jax.jit(double)")
        traces = notebook.trace("f(x)\\nf(sharded)\\nf(x)\\nf(sharded)").of("double").traces
        assert [trace.calls for trace in traces] == [2, 2]
        assert str(traces[1].reason) == "sharding of x: one device → P('d')", traces[1].reason
    """)


def test_another_device_is_the_reason_for_another_program():
    on_eight_devices("""
        notebook.run("f = jax.jit(double)\\ny = jax.device_put(x, jax.devices()[1])")
        traces = notebook.trace("f(x)\\nf(y)").of("double").traces
        assert [trace.reason.kind for trace in traces] == ["first call", "changed"]
        assert "compiled again, without being traced again" in str(traces[1].reason), traces[1].reason
    """)


def test_a_program_from_the_persistent_cache_is_said_to_be(tmp_path: Path):
    on_eight_devices(f"""
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        cell = "jax.jit(lambda x: jnp.sin(x) * 3)(x)"
        assert not notebook.trace(cell).only("<lambda>").persistent_cache
        jax.clear_caches()
        assert notebook.trace(cell).only("<lambda>").persistent_cache
    """)


def test_calls_of_a_derived_program_on_two_devices_add_up_and_are_said_to_be_unsure_each():
    on_eight_devices("""
        seen = notebook.trace('''
            @jax.jit
            def f(x):
                return (x ** 2).sum()
            for _ in range(3):
                jax.grad(f)(x)
                jax.grad(f)(jax.device_put(x, jax.devices()[1]))
        ''')
        traces = seen.of("f", "grad").traces
        assert sum(trace.calls for trace in traces) == 12, traces
        assert not any(trace.calls_exact for trace in traces)
    """)
