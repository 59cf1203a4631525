import jax

jax.jit(lambda x: x)(2**31)
