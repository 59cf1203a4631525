import jax
import jax.numpy as jnp
import numpy as np
import optax

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-1, warmup_steps=5, decay_steps=50)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-4))


def rosenbrock(p):
    return (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2


@jax.jit
def update(params, state):
    value, grads = jax.value_and_grad(rosenbrock)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


params = {"x": jnp.array(-1.0), "y": jnp.array(1.0)}
state = optimizer.init(params)
losses = []
for _ in range(30):
    params, state, value = update(params, state)
    losses.append(value)
losses = np.array(jax.device_get(losses))
rates = np.array([float(schedule(step)) for step in range(50)])
print(losses[0] > losses[-1], rates.max(), int(losses.argmin()))
