import jax

rate = 0.5


@jax.jit
def step(w):
    return w - rate * w


a = step(1.0)
rate = 0.25
b = step(1.0)
