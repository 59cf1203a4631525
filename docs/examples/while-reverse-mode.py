import jax


def halve(x):
    return jax.lax.while_loop(lambda v: v > 1.0, lambda v: v / 2, x)


jax.grad(halve)(8.0)
