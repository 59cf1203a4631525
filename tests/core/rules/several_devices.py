"""Runs the checks of a test file in a process with four devices: a process can't change how many it has."""

import json
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable

IMPORTS = """\
import jax, jax.numpy as jnp
from functools import partial
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
square = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
over_x = partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
xs = jnp.arange(8.0)
"""
"""What the programs begin with."""

Check = Callable[[], None]


def outcome_of_all(file: str) -> dict[str, str]:
    """Runs a test file as a script, which calls `say_outcomes`: `ok`, or what went wrong, for each of its checks."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **flags, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def say_outcomes(checks: dict[str, Check]) -> None:
    """All of them, or those with one of the words of the command line in their names."""
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    chosen = {name: check for name, check in checks.items() if not words or any(word in name for word in words)}
    print(json.dumps({name: _outcome(check) for name, check in chosen.items()}))


def _outcome(check: Check) -> str:
    try:
        check()
    except Exception:  # noqa: BLE001 - the other checks are to run as well
        return traceback.format_exc(limit=-1)
    return "ok"
