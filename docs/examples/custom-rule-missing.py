import jax


@jax.custom_vjp
def double(x):
    return x * 2


double.defvjp(lambda x: (x * 2, None), lambda kept, g: (g * 2,))
d = jax.jacfwd(double)(3.0)
