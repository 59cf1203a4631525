import jax


def scaled(x, factor):
    return x * factor


y = jax.jit(scaled, static_argnums=2)(1.0, 2)
