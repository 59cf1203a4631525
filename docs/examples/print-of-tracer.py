import jax


@jax.jit
def f(x):
    print("x =", x)
    return x


out = f(1.0)
