import jax

params = {"w": 1.0, "b": 0.0}
grads = {"w": 0.5}
jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
