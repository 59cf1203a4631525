import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Field(eqx.Module):
    mlp: eqx.nn.MLP

    def __init__(self, key):
        self.mlp = eqx.nn.MLP(2, 2, 8, 1, activation=jax.nn.softplus, key=key)

    def __call__(self, t, y, args):
        return self.mlp(y)


def solve(field, y0, ts):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        ts[0],
        ts[-1],
        dt0=ts[1] - ts[0],
        y0=y0,
        saveat=diffrax.SaveAt(ts=ts),
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
    )
    return solution.ys


@eqx.filter_value_and_grad
def grad_loss(field, ts, ys):
    predicted = jax.vmap(solve, in_axes=(None, 0, None))(field, ys[:, 0], ts)
    return jnp.mean((predicted - ys) ** 2)


@eqx.filter_jit
def step(field, state, ts, ys):
    loss, grads = grad_loss(field, ts, ys)
    updates, state = optim.update(grads, state)
    return eqx.apply_updates(field, updates), state, loss


ts = jnp.linspace(0.0, 1.0, 10)
starts = jnp.array([[1.0, 0.0], [0.0, 1.0]])
ys = jnp.stack([starts * jnp.exp(-t) for t in ts], axis=1)
field = Field(jax.random.key(0))
optim = optax.adam(3e-3)
state = optim.init(eqx.filter(field, eqx.is_inexact_array))
for _ in range(2):
    field, state, loss = step(field, state, ts, ys)
print(float(loss))
