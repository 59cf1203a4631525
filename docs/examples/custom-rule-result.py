import jax


@jax.custom_vjp
def halved(x):
    return x / 2


def forward(x):
    return x / 2, None


def backward(kept, g):
    return g / 2


halved.defvjp(forward, backward)
g = jax.grad(halved)(3.0)
