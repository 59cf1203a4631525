import jax.numpy as jnp
import lineax

matrix = lineax.MatrixLinearOperator(jnp.array([[2.0, 1.0], [1.0, 3.0]]))

x = 2 * lineax.linear_solve(matrix, jnp.ones(2))
