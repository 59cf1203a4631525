import jax


@jax.jit
def describe(x):
    return x * 2, "doubled"


describe(1.0)
