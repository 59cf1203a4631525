import jax

key = jax.random.key(0)
jax.random.split(key)
x = jax.random.normal(key)
