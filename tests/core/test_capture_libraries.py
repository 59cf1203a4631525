"""Jitted functions as Equinox, Flax and Optax make them."""

import pytest

from tests.core.captures import Notebook, inputs, outputs

MODULE = """
    import equinox as eqx
    class Model(eqx.Module):
        layers: list
        def __init__(self, key):
            self.layers = [eqx.nn.Linear(8, 4, key=key), eqx.nn.Linear(4, 1, key=key)]
        def __call__(self, x):
            return self.layers[1](jax.nn.relu(self.layers[0](x)))
        @eqx.filter_jit
        def apply(self, x):
            return self(x)
    @eqx.filter_jit
    def loss(model, x, flip, *, scale=2):
        return -model(x).sum() if flip else model(x).sum() * scale
    model, x = Model(jax.random.key(0)), jnp.ones(8)
"""
WEIGHTS = [
    "model.layers[0].weight: f32[4,8]",
    "model.layers[0].bias: f32[4]",
    "model.layers[1].weight: f32[1,4]",
    "model.layers[1].bias: f32[1]",
]


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_filter_jit_is_seen_as_the_users_function_with_its_arguments(notebook: Notebook):
    notebook.run(MODULE)
    seen = notebook.trace("loss(model, x, True)")
    trace = seen.only("loss")
    assert inputs(trace) == [*WEIGHTS, "x: f32[8]", "flip = True"]
    assert outputs(trace) == [": f32[]"]
    span = seen.of("loss").span
    assert span is not None
    assert span.file.startswith("<cell ")
    assert trace.reason.kind == "first call"


@pytest.mark.parametrize("observed", [True, False])
def test_filter_jit_is_traced_again_for_a_python_value(notebook: Notebook, observed: bool):
    notebook.run(MODULE)
    (notebook.trace if observed else notebook.run)("loss(model, x, True)")
    reason = notebook.trace("loss(model, x, False, scale=3)").only("loss").reason
    assert str(reason) == "static value of flip: True → False; static value of scale: absent → 3"


def test_methods_and_modules_of_equinox_are_named(notebook: Notebook):
    notebook.run(MODULE)
    seen = notebook.trace("""
        model.apply(x)
        eqx.filter_jit(model)(x)
        eqx.filter_jit(eqx.filter_value_and_grad(lambda m, x: m(x).sum()))(model, x)
    """)
    assert seen.names() == ["Model.apply", "Model.__call__", "<lambda>"]
    assert inputs(seen.only("<lambda>"))[0] == "m.layers[0].weight: f32[4,8]"
    assert outputs(seen.only("<lambda>"))[:2] == ["[0]: f32[]", "[1].layers[0].weight: f32[4,8]"]


def test_nnx_jit_names_the_variables_of_a_model_and_an_optimizer(notebook: Notebook):
    notebook.run("""
        import optax
        from flax import nnx
        class Model(nnx.Module):
            def __init__(self, rngs):
                self.linear = nnx.Linear(3, 4, rngs=rngs)
                self.dropout = nnx.Dropout(0.1, rngs=rngs)
            def __call__(self, x):
                return self.dropout(self.linear(x))
        model = Model(nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(1e-3), wrt=nnx.Param)
        @nnx.jit
        def train(model, optimizer, x):
            loss, gradients = nnx.value_and_grad(lambda model: model(x).sum())(model)
            optimizer.update(model, gradients)
            return loss
    """)
    seen = notebook.trace("for _ in range(3): train(model, optimizer, jnp.ones((2, 3)))")
    trace = seen.only("train")
    assert "model.linear.kernel: f32[3,4]" in inputs(trace)
    assert "model.linear.kernel (updated): f32[3,4]" in outputs(trace)
    assert outputs(trace)[-1] == ": f32[]"
    assert trace.calls == 3
    before = float(notebook.names["model"].linear.bias.sum())
    again = notebook.trace("train(model, optimizer, jnp.ones((2, 3)))").only("train")
    assert again.cached
    assert float(notebook.names["model"].linear.bias.sum()) != before


def test_linen_is_seen_under_the_users_module_and_its_own_functions_are_folded(notebook: Notebook):
    notebook.run("""
        import flax.linen as nn
        class Model(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(3)(x)
        model, x = Model(), jnp.ones(8)
        variables = model.init(jax.random.key(0), x)
    """)
    seen = notebook.trace("jax.jit(model.apply)(variables, x)")
    assert seen.names() == ["Model.apply"]
    assert inputs(seen.only("Model.apply"))[0] == "variables['params']['Dense_0']['bias']: f32[3]"
    assert [each.parent for each in seen.functions if each.library] == [seen.of("Model.apply").id]


def test_a_librarys_function_that_the_user_jits_is_the_users(notebook: Notebook):
    notebook.run("import optax\noptimizer = optax.adam(1e-3)\nparams = {'w': jnp.ones(3)}")
    seen = notebook.trace("jax.jit(optimizer.init)(params)")
    assert [each.library for each in seen.functions] == [False]


def test_functions_of_optax_inside_a_step_are_folded(notebook: Notebook):
    notebook.run("""
        import optax
        optimizer = optax.adam(1e-3)
        params = {"w": jnp.ones(3)}
        state = optimizer.init(params)
        @jax.jit
        def step(params, state):
            updates, state = optimizer.update(params, state)
            return optax.apply_updates(params, updates), state
    """)
    seen = notebook.trace("step(params, state)")
    assert seen.names() == ["step"]
    assert all(each.library and each.parent == seen.of("step").id for each in seen.functions if each.name != "step")
    assert "state[0].mu['w']: f32[3]" in inputs(seen.only("step"))


def test_a_sampler_that_runs_the_users_model_is_not_folded(notebook: Notebook):
    seen = notebook.trace("""
        import numpyro
        from numpyro.infer import MCMC, NUTS
        def model(y):
            scale = numpyro.sample("scale", numpyro.distributions.LogNormal())
            numpyro.sample("y", numpyro.distributions.Normal(0.0, scale * 2), obs=y)
        mcmc = MCMC(NUTS(model), num_warmup=5, num_samples=5, progress_bar=False)
        mcmc.run(jax.random.key(0), jnp.ones(3))
    """)
    assert seen.error is None
    (sampler,) = [each for each in seen.functions if not each.library]
    assert sampler.parent is None
    assert sampler.traces[0].program is not None
    assert all(each.traces[0].program is None for each in seen.functions if each.library)


def test_what_jax_jits_itself_is_not_listed(notebook: Notebook):
    seen = notebook.trace(
        "x = jnp.ones((3, 3))\njnp.linalg.inv(x + jnp.eye(3))\njax.random.normal(jax.random.key(0), (2,))"
    )
    assert seen.functions == ()
