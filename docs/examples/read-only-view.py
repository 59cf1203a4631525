import jax.numpy as jnp
import numpy as np

view = np.asarray(jnp.zeros(3))
view[0] = 1.0
