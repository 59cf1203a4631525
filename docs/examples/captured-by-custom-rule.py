import jax


def make(scale):
    @jax.custom_vjp
    def f(x):
        return x * scale

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * scale,))
    return f


@jax.jit
def loss(s, x):
    return make(s)(x)


jax.grad(loss)(2.0, 3.0)
