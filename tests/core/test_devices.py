"""Taps on eight devices, in a process of its own since a process can't change how many it has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = [
    *("shard_map_in_jit", "shard_map_outside_of_jit", "shard_map_unchecked", "pmap", "collective_in_shard_map"),
    *("gradient_in_shard_map", "automatically_sharded", "automatically_sharded_and_large", "one_device_among_eight"),
    *("stop_in_shard_map", "replace_in_shard_map"),
]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    flags = "--xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "tests.core.devices"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_taps_on_eight_devices(outcomes: dict[str, str], name: str):
    assert outcomes[name] == "ok"
