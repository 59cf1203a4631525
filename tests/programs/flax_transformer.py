import jax
import jax.numpy as jnp
import optax
from flax import nnx

VOCAB, WIDTH, HEADS, LENGTH = 64, 32, 4, 16


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x, mask):
        attended = self.attention(self.norm1(x), mask=mask)
        x = x + attended
        hidden = nnx.gelu(self.up(self.norm2(x)))
        return x + self.down(hidden)


class Transformer(nnx.Module):
    def __init__(self, layers, rngs):
        self.embed = nnx.Embed(VOCAB, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(layers)])
        self.head = nnx.Linear(WIDTH, VOCAB, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        mask = nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def loss_fn(model, tokens):
    logits = model(tokens[:, :-1])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return losses.mean()


@nnx.jit
def train_step(model, optimizer, tokens):
    loss, grads = nnx.value_and_grad(loss_fn)(model, tokens)
    optimizer.update(model, grads)
    return loss


model = Transformer(layers=2, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
tokens = jax.random.randint(jax.random.key(0), (4, LENGTH + 1), 0, VOCAB)
losses = [train_step(model, optimizer, tokens) for _ in range(3)]
print(jnp.stack(losses).shape)
