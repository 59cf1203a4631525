import jax


def check(v):
    if v < 0:
        raise ValueError("negative")


@jax.jit
def f(x):
    jax.debug.callback(check, x)
    return x


try:
    out = f(1.0).block_until_ready()
except ValueError:
    out = None
