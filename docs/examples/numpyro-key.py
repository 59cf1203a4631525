import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", x.shape[0]):
        return numpyro.sample("y", dist.Normal(w * x, 1.0), obs=y)


model(jnp.linspace(0.0, 1.0, 5))
