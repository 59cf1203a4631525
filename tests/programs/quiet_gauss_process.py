import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl


def kernel(params, a, b):
    distance = jnp.sum((a[:, None] - b[None, :]) ** 2, axis=-1)
    return jnp.exp(params["log_amplitude"]) * jnp.exp(-0.5 * distance / jnp.exp(params["log_length"]))


@jax.jit
def negative_log_likelihood(params, x, y):
    covariance = kernel(params, x, x) + jnp.exp(params["log_noise"]) * jnp.eye(x.shape[0])
    factor = jsl.cholesky(covariance, lower=True)
    whitened = jsl.solve_triangular(factor, y, lower=True)
    return 0.5 * whitened @ whitened + jnp.sum(jnp.log(jnp.diag(factor)))


class GaussianProcess:
    def __init__(self, params):
        self.params = params
        self.gradient = jax.jit(jax.grad(negative_log_likelihood))

    def fit(self, x, y, steps=10, rate=0.01):
        for _ in range(steps):
            gradient = self.gradient(self.params, x, y)
            self.params = jax.tree.map(lambda p, g: p - rate * g, self.params, gradient)
        return self

    def predict(self, x, y, new):
        covariance = kernel(self.params, x, x) + jnp.exp(self.params["log_noise"]) * jnp.eye(len(x))
        cross = kernel(self.params, new, x)
        return cross @ jnp.linalg.solve(covariance, y)


x = jnp.linspace(0.0, 3.0, 15)[:, None]
y = jnp.sin(x[:, 0])
params = {"log_amplitude": jnp.zeros(()), "log_length": jnp.zeros(()), "log_noise": jnp.array(-3.0)}
process = GaussianProcess(params).fit(x, y)
print(process.predict(x, y, jnp.array([[0.5], [1.5]])))
hessian = jax.hessian(negative_log_likelihood)(process.params, x, y)
print(jax.tree.structure(hessian).num_leaves)
