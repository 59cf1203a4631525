import jax

jax.lax.cond(True, lambda x: (x, x), lambda x: x, 1.0)
