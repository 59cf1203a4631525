import equinox as eqx
import jax
import jax.numpy as jnp


class Scaled(eqx.Module):
    w: jax.Array
    scale: jax.Array = eqx.field(static=True)


apply = jax.jit(lambda m, x: m.w * m.scale * x)
apply(Scaled(jnp.ones(2), jnp.array([2.0, 1.0])), 1.0)
apply(Scaled(jnp.ones(2), jnp.array([2.0, 1.0])), 1.0)
