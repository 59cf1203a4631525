"""Small functions of a user's, to be tapped."""

import jax.numpy as jnp
from jax import lax


def mean_square(w, x):
    h = jnp.tanh(x @ w)
    loss = (h**2).mean()
    return loss


def layer(params, x):
    y = x @ params["w"] + params["b"][1]
    return y


def body(c, x):
    d = c + x
    return d, d


def cumulate(xs):
    return lax.scan(body, 0.0, xs)[0]


def product(c, x):
    y = c * x
    z = y * 1
    return z, None
