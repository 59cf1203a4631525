import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS


def regression(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0))
    mean = slope * x + offset
    numpyro.sample("y", dist.Normal(mean, 0.1), obs=y)


x = jnp.linspace(0.0, 1.0, 20)
mcmc = MCMC(NUTS(regression), num_warmup=20, num_samples=20, progress_bar=False)
mcmc.run(jax.random.key(0), x, y=2.0 * x + 1.0)
samples = mcmc.get_samples()
print(samples["slope"].shape)
