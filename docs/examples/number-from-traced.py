import jax


@jax.jit
def half(x):
    return float(x) / 2


half(1.0)
