import jax.numpy as jnp
import numpy as np

column = np.array([1.5, 2, 4.0], dtype=object)
x = jnp.asarray(column)
