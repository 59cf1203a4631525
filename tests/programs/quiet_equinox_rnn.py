import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear
    hidden: int = eqx.field(static=True)

    def __init__(self, inputs, hidden, key):
        cell_key, head_key = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(inputs, hidden, key=cell_key)
        self.head = eqx.nn.Linear(hidden, 1, key=head_key)
        self.hidden = hidden

    def __call__(self, sequence):
        def step(state, x):
            return self.cell(x, state), None

        state, _ = jax.lax.scan(step, jnp.zeros(self.hidden), sequence)
        return self.head(state)[0]


@eqx.filter_jit
def make_step(model, opt_state, x, y):
    def loss(model):
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    value, grads = eqx.filter_value_and_grad(loss)(model)
    updates, opt_state = optimizer.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), opt_state, value


def batches(x, y, size, key):
    while True:
        key, order_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(x))
        for start in range(0, len(x) - size + 1, size):
            chosen = order[start : start + size]
            yield x[chosen], y[chosen]


model_key, data_key, loader_key = jax.random.split(jax.random.key(5), 3)
x = jax.random.normal(data_key, (32, 6, 2))
y = x.sum(axis=(1, 2))
model = Recurrent(2, 8, model_key)
optimizer = optax.adam(1e-2)
opt_state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
for step, (xb, yb) in zip(range(4), batches(x, y, 8, loader_key), strict=False):
    model, opt_state, loss = make_step(model, opt_state, xb, yb)
    print(step, loss)
