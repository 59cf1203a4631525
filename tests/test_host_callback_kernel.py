"""Programs of the article that import `host_callback` run as they stand, under each magic, in a real ipykernel."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kernels import Kernel, Outputs, running_kernel

from jaxmagic.fit import unpack
from jaxmagic.records import Payload, Report
from jaxmagic.show import REPORT_MIME

SEED = Path(__file__).parent / "programs" / "seed"
MAGICS = ("%%jaxtrace", "%%jaxtap", "%%jaxnojit")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with running_kernel() as kernel:
        kernel.run("%load_ext jaxmagic")
        yield kernel


def run(kernel: Kernel, magic: str, program: str) -> Outputs:
    outputs = kernel.run(f"{magic}\n{(SEED / program).read_text()}")
    assert outputs.status == "ok", outputs.traceback
    return outputs


def report_of(outputs: Outputs) -> Report:
    (shown,) = (one for one in outputs.displays if REPORT_MIME in one)
    return unpack(msgspec.convert(shown[REPORT_MIME], Payload))


@pytest.mark.parametrize("magic", MAGICS)
def test_what_the_host_function_returns_flows_on(kernel: Kernel, magic: str):
    outputs = run(kernel, magic, "3_host_callback.py")
    assert outputs.stdout.splitlines()[-1] == "[1. 1. 1.]"
    assert "intermediate: [2. 4. 6.]" in outputs.stdout
    report = report_of(outputs)
    (finding,) = [one for one in report.findings if one.rule == "host-callback-used"]
    assert finding.fix == "jax.experimental.io_callback(inspect, jax.ShapeDtypeStruct(y.shape, y.dtype), y)"
    assert ("callback", "intermediate: [2. 4. 6.]") in [(one.source, one.text) for one in report.printed]


@pytest.mark.parametrize("magic", MAGICS)
def test_the_three_modes_agree(kernel: Kernel, magic: str):
    outputs = run(kernel, magic, "5_three_modes.py")
    assert [line for line in outputs.stdout.splitlines() if line.startswith("=====")] == [
        "===== mode 1: jit =====",
        "===== mode 2: disable_jit =====",
        "===== mode 3: host_callback =====",
    ]
    results = re.findall(r"^out: (.*)$", outputs.stdout, re.MULTILINE)
    assert len(results) == 2
    assert report_of(outputs).state == "finished"


def test_the_module_is_there_while_jaxmagic_is_loaded(kernel: Kernel):
    statement = "from jax.experimental import host_callback"
    assert kernel.run(statement).status == "ok"
    kernel.run("%unload_ext jaxmagic")
    assert "ImportError" in str(kernel.run(statement).error)
    kernel.run("%load_ext jaxmagic\n%reload_ext jaxmagic")
    assert kernel.run(statement).status == "ok"
