import jax.numpy as jnp
import numpy as np

stamps = jnp.asarray(np.array([1_700_000_000_000]))
