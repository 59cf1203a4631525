import jax
import numpyro
import numpyro.distributions as dist


def model(scales):
    for name in scales:
        numpyro.sample("w", dist.Normal(0.0, scales[name]))


mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=2, num_samples=2, progress_bar=False)
mcmc.run(jax.random.key(0), {"a": 1.0, "b": 2.0})
