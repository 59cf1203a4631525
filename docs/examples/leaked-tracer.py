import jax

seen = []


@jax.jit
def f(x):
    seen.append(x * 2)
    return x


f(1.0)
seen[0] + 1
