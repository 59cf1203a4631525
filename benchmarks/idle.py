"""P8: what jaxmagic costs where it is loaded and not used."""

import statistics
import subprocess
import sys
from collections.abc import Iterable

from rounds import Row, ratio

ROUNDS = 7
IMPORTS = """
import sys, time
began = time.perf_counter()
import jax, IPython.core.interactiveshell
middle = time.perf_counter()
shell = IPython.core.interactiveshell.InteractiveShell.instance()
ready = time.perf_counter()
shell.run_line_magic("load_ext", "jaxmagic")
print(time.perf_counter() - ready)
"""


def rows(only: set[str]) -> Iterable[Row]:
    if only and "P8" not in only:
        return
    added = statistics.median(_load_seconds() for _ in range(ROUNDS)) * 1000
    yield Row("P8", "`%load_ext jaxmagic` after `import jax`", "≤ 50 ms", f"{added:.0f} ms", added <= 50)
    found = _idle_ratio()
    yield Row(
        "P8", "20,000 jitted calls, loaded and idle", "1.00 × (nothing installed)", f"{found:.2f} ×", found <= 1.05
    )


def _load_seconds() -> float:
    return float(subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True).stdout)


def _idle_ratio() -> float:
    """The same loop with jaxmagic loaded and unloaded, in turn."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_cell("import jax\nf = jax.jit(lambda x: x + 1.0)\nf(1.0)")
    loop = "for _ in range(20_000): f(1.0)"

    def loaded() -> None:
        shell.run_cell(loop, store_history=False)

    def unloaded() -> None:
        shell.run_line_magic("unload_ext", "jaxmagic")
        shell.run_cell(loop, store_history=False)
        shell.run_line_magic("load_ext", "jaxmagic")

    shell.run_line_magic("load_ext", "jaxmagic")
    return ratio(loaded, unloaded)
