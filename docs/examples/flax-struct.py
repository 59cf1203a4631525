import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training.train_state import TrainState

model = nn.Dense(4)
variables = model.init(jax.random.key(0), jnp.ones((2, 3)))
state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optax.sgd(0.1))

state.params = jax.tree.map(jnp.zeros_like, state.params)
