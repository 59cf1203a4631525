"""NumPyro's models outside of their handlers, inference without a key, and names that are taken."""

import pytest
from failing_cells import failed

IMPORTS = """
import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
key, x = jax.random.key(0), jnp.linspace(0.0, 1.0, 5)
y = 2 * x
"""

MODEL = """
def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", x.shape[0]):
        return numpyro.sample("y", dist.Normal(w * x, 1.0), obs=y)
"""

RUN = "mcmc = MCMC(NUTS(model), num_warmup=2, num_samples=2, progress_bar=False)\n"

FIXED = [
    (MODEL, "out = model(x)", "numpyro.handlers.seed(model, jax.random.key(0))(x)", "has no random key"),
    (
        MODEL + "from numpyro import handlers",
        "out = handlers.trace(model).get_trace(x)",
        "handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(x)",
        "has no random key",
    ),
    (
        "def prior(n):\n    return numpyro.sample('w', dist.Normal(jnp.zeros(n), 1.0).to_event(1))\n"
        "def model(x):\n    return numpyro.deterministic('y', prior(2).sum() * x)",
        "def check(x, key):\n    return model(x)\nout = check(x, key)",
        "numpyro.handlers.seed(model, key)(x)",
        "`numpyro.sample('w', dist.Normal(jnp.zeros(n), 1.0).to_event(1))` has no random key",
    ),
    (
        "class Regression:\n    def model(self, x):\n        return numpyro.sample('w', dist.Gamma(1.0, 1.0)) * x\n"
        "    def simulate(self, x):\n        return jax.jit(self.model)(x)",
        "out = Regression().simulate(x)",
        "jax.jit(numpyro.handlers.seed(self.model, jax.random.key(0)))(x)",
        "has no random key",
    ),
    (
        "class Scaled:\n    def __init__(self, s):\n        self.s = s\n    def __call__(self, x):\n"
        "        return numpyro.sample('z', dist.Normal(0.0, self.s)) * x\nscaled = Scaled(2.0)",
        "out = jax.vmap(lambda x: scaled(x))(x)",
        "numpyro.handlers.seed(scaled, jax.random.key(0))(x)",
        "has no random key",
    ),
    ("", "out = numpyro.sample('w', dist.Normal(0.0, 1.0))", "rng_key=jax.random.key(0))", "has no random key"),
    (MODEL + RUN, "mcmc.run(x, y)\nout = 1", "mcmc.run(jax.random.key(0), x, y)", "`mcmc.run` takes a random key"),
    (MODEL + RUN, "mcmc.run(7, x, y)\nout = 1", "mcmc.run(jax.random.key(7), x, y)", "`mcmc.run` takes a random key"),
    (
        MODEL + "svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.1), Trace_ELBO())",
        "def fit(key, x, y):\n    return svi.init(x, y)\nout = fit(key, x, y)",
        "svi.init(key, x, y)",
        "`svi.init` takes a random key",
    ),
    (
        MODEL,
        "out = Predictive(model, num_samples=3)(x)",
        "Predictive(model, num_samples=3)(jax.random.key(0), x)",
        "takes a random key",
    ),
    (
        "normal = dist.Normal(0.0, 1.0)",
        "out = normal.sample(3)",
        "normal.sample(jax.random.key(0), (3,))",
        "random key",
    ),
    ("", "out = dist.Normal(0.0, 1.0).expand([3]).sample()", ".sample(jax.random.key(0))", "takes a random key"),
]


@pytest.mark.parametrize(("before", "call", "fix", "said"), FIXED)
def test_what_draws_without_a_key_is_given_one(before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == "numpyro-key"
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert "out" in program.fixed().namespace


TWICE = [
    ("    a = numpyro.sample('w', normal)\n    b = numpyro.sample('w', normal)", "'w_2'"),
    ("    for i in range(2):\n        numpyro.sample('w', normal)", "f'w_{i}'"),
]


@pytest.mark.parametrize(("body", "name"), TWICE)
def test_a_name_that_is_taken_gets_another(body: str, name: str):
    model = f"normal = dist.Normal(0.0, 1.0)\ndef model():\n{body}\n"
    program = failed(IMPORTS + model + RUN, "mcmc.run(key)\nout = mcmc.get_samples()")
    assert program.finding.rule == "numpyro-name"
    assert name in program.finding.fix
    assert "out" in program.fixed().namespace


def test_an_assertion_of_the_model_itself_is_not_put_down_to_a_key():
    model = "def model(x):\n    assert x.ndim == 2\n    return numpyro.sample('w', dist.Normal(0.0, 1.0))"
    assert failed(IMPORTS + model, "model(x)").failure.findings == ()
