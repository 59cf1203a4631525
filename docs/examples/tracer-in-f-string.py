import jax


@jax.jit
def f(x):
    jax.debug.print(f"x = {x}")
    return x


out = f(1.0)
