import diffrax
import jax.numpy as jnp


def decay(t, y):
    return -y


diffrax.diffeqsolve(diffrax.ODETerm(decay), diffrax.Tsit5(), t0=0.0, t1=1.0, dt0=0.1, y0=jnp.ones(2))
