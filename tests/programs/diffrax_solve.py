import diffrax
import jax
import jax.numpy as jnp


def field(t, y, decay):
    slope = -decay * y
    return slope


@jax.jit
def solve(start, decay):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=1.0,
        dt0=0.1,
        y0=start,
        args=decay,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 5)),
    )
    return solution.ys


ys = solve(jnp.ones(3), 0.5)
print(ys.shape)
