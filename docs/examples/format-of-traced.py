import jax


@jax.jit
def report(x):
    print(f"{x:.3f}")
    return x


report(1.0)
