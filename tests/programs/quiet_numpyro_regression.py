import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


data_key, mcmc_key, svi_key, predict_key = jax.random.split(jax.random.key(3), 4)
x = jnp.linspace(-1.0, 1.0, 40)
y = 1.5 * x + 0.3 + 0.1 * jax.random.normal(data_key, x.shape)
mcmc = MCMC(NUTS(model), num_warmup=20, num_samples=20, progress_bar=False)
mcmc.run(mcmc_key, x, y)
samples = mcmc.get_samples()
guide = AutoNormal(model)
svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
result = svi.run(svi_key, 20, x, y, progress_bar=False)
predicted = Predictive(model, samples)(predict_key, x)["y"]
print(samples["slope"].mean(), result.losses[-1], predicted.shape)
