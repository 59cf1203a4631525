import diffrax
import jax.numpy as jnp

term = diffrax.ODETerm(lambda t, y, args: -y)
solution = diffrax.diffeqsolve(term, diffrax.Euler(), t0=0.0, t1=1.0, dt0=0.5, y0=jnp.ones(2), max_steps=4)

middle = solution.evaluate(0.5)
