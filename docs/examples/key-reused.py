import jax

key = jax.random.key(0)
weights = jax.random.normal(key, (3,))
noise = jax.random.normal(key, (3,))
