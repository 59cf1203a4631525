"""Writes the sample reports that a real recording can give: `python tests/records/make.py`.

The others are made by hand, to hold what is rare, malicious, or not the same from run to run.
"""

from pathlib import Path
from threading import Thread

import msgspec
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from jaxmagic.records import Report

MAGICS = {"nojit": "jaxnojit"}
"""By the name of the sample; `jaxtrace` for the others."""

CELLS = {
    "mlp": """\
import jax
import jax.numpy as jnp

def mlp(params, x):
    h = jax.nn.relu(x @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]

def loss(params, x, y):
    error = mlp(params, x) - y
    return jnp.mean(error ** 2)

@jax.jit
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, value

k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
params = {
    "w1": jax.random.normal(k1, (784, 256)) * 0.05, "b1": jnp.zeros(256),
    "w2": jax.random.normal(k2, (256, 10)) * 0.05, "b2": jnp.zeros(10),
}
x, y = jax.random.normal(k3, (32, 784)), jnp.zeros((32, 10))
for i in range(5):
    params, value = step(params, x, y)
    print(i, value)
""",
    "empty": "",
    "plain_python": """\
words = "a cell with no jax in it".split()
longest = max(words, key=len)
print(longest)
""",
    "retraces": """\
import jax
import jax.numpy as jnp
import numpy as np

@jax.jit
def scale(x, factor):
    shifted = x - x.mean()
    return shifted * factor

def power(x, n):
    return x ** n

scale(jnp.ones(8), 2.0)
scale(jnp.ones(9), 2.0)
scale(jnp.ones(9), jnp.float32(2.0))
scale(np.ones(9, np.int32), jnp.float32(2.0))
with jax.default_matmul_precision("highest"):
    scale(jnp.ones(8), 2.0)
raised = jax.jit(power, static_argnames="n")
for n in range(2, 5):
    raised(jnp.ones((4, 4)), n=n)
for _ in range(3):
    jax.jit(lambda x: x + 1)(jnp.ones(3))
""",
    "nojit": """\
import jax
import jax.numpy as jnp

@jax.jit
def settle(x):
    def body(c, k):
        c = c + k * x
        if k > 2:
            c = -c
        return c, jnp.linalg.norm(c)
    c, norms = jax.lax.scan(body, x, jnp.arange(8.0))
    return c / norms[-1]

settled = settle(jnp.linspace(0.0, 1.0, 4))
weights = jax.vmap(lambda row: row / row.sum())(jnp.ones((3, 5)))
""",
}


def record(shell: InteractiveShell, magic: str, cell: str) -> Report:
    """The report of one cell, run as a person would."""
    text = f"%%{magic} -o report\n{cell}"
    # From a thread, no frame of this file is on the stack, as none would be in a notebook.
    run = Thread(target=shell.run_cell, args=(text,), kwargs={"store_history": True})
    with capture_output():
        run.start()
        run.join()
    return shell.user_ns.pop("report")


def main() -> None:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jaxmagic")
    for name, cell in CELLS.items():
        written = msgspec.json.format(msgspec.json.encode(record(shell, MAGICS.get(name, "jaxtrace"), cell)), indent=1)
        (Path(__file__).parent / f"{name}.json").write_bytes(written + b"\n")


if __name__ == "__main__":
    main()
