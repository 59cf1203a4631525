import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Array, Float, jaxtyped


@jaxtyped(typechecker=beartype)
def predict(x: Float[Array, "batch n"], w: Float[Array, "n m"]) -> Float[Array, "batch m"]:
    return x @ w


predict(jnp.ones((4, 3)), jnp.ones((2, 5)))
