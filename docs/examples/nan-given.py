# %%jaxtap --when nan
import jax
import jax.numpy as jnp
import numpy as np

prices = np.array([1.0, np.nan, 3.0], np.float32)
jax.jit(lambda prices: jnp.log(prices).mean())(prices)
