import jax


@jax.jit
def steps(x, n):
    for _ in range(n):
        x = x * 2
    return x


steps(1.0, 3)
