import jax

key = jax.random.key(0)


@jax.jit
def noisy(x):
    return x + jax.random.normal(key)


out = noisy(0.0), noisy(0.0)
