import jax

power = jax.lax.fori_loop(0, 8, lambda x: x * 2.0, 1.0)
