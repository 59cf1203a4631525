import jax.numpy as jnp
import numpy as np

x = np.array([1.0, 1e-9])
total = jnp.asarray(x).sum()
