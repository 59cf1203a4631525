"""Linear algebra, transforms, integration, iteration."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import cg


def _positive(x):
    return x @ x.T + 4 * jnp.eye(x.shape[0], dtype=x.dtype)


def cholesky_solve(x):
    a = _positive(x)
    factor = jnp.linalg.cholesky(a)
    y = jax.scipy.linalg.cho_solve((factor, True), x)
    return y


def qr(x):
    q, r = jnp.linalg.qr(x)
    product = q @ r
    return product


def singular_values(x):
    s = jnp.linalg.svd(x, compute_uv=False)
    total = s.sum()
    return s / total


def eigenvalues(x):
    values = jnp.linalg.eigvalsh(_positive(x))
    return values[::-1]


def inverse(x):
    a = _positive(x)
    b = jnp.linalg.inv(a)
    return a @ b


def determinant(x):
    sign, log = jnp.linalg.slogdet(_positive(x))
    return sign * log


def matrix_exponential(x):
    a = 0.1 * (x @ x.T)
    y = jax.scipy.linalg.expm(a)
    return y


def least_squares(x):
    gram = x.T @ x + jnp.eye(x.shape[1], dtype=x.dtype)
    y = jnp.linalg.solve(gram, x.sum(axis=0))
    return y


def conjugate_gradient(x):
    a = _positive(x)
    y, _ = cg(lambda v: a @ v, x[:, 0], maxiter=5)
    return y


def triangular_solve(x):
    lower = jnp.tril(_positive(x))
    y = jax.scipy.linalg.solve_triangular(lower, x, lower=True)
    return y


def power_iteration(x):
    a = _positive(x)

    def step(v, _):
        w = a @ v
        v = w / jnp.linalg.norm(w)
        return v, None

    v, _ = lax.scan(step, jnp.ones(x.shape[0], x.dtype), None, length=20)
    return v @ a @ v


def fft(x):
    spectrum = jnp.fft.fft(x)
    power = jnp.abs(spectrum) ** 2
    return power


def fft_round_trip(x):
    spectrum = jnp.fft.fft2(x)
    y = jnp.fft.ifft2(spectrum * 0.5).real
    return y


def real_fft(x):
    spectrum = jnp.fft.rfft(x)
    y = jnp.fft.irfft(spectrum, n=x.shape[1])
    return y


def fft_convolution(x):
    a, b = jnp.fft.rfft(x[0], 16), jnp.fft.rfft(x[1], 16)
    y = jnp.fft.irfft(a * b, 16)
    return y


def runge_kutta(x):
    def slope(y):
        return -y + jnp.sin(y)

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        k3 = slope(y + 0.05 * k2)
        k4 = slope(y + 0.1 * k3)
        y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y.sum()

    return lax.scan(step, x, None, length=20)


def newton(x):
    def improve(state):
        y, _ = state
        step = (y * y - jnp.abs(x)) / (2 * y)
        y = y - step
        return y, jnp.max(jnp.abs(step))

    return lax.while_loop(lambda state: state[1] > 1e-3, improve, (jnp.ones_like(x), jnp.array(1.0, x.dtype)))[0]


def logistic_map(x):
    def step(i, y):
        y = 3.7 * y * (1 - y)
        return y

    return lax.fori_loop(0, 10, step, jax.nn.sigmoid(x))


def heat_equation(x):
    def step(u, _):
        left, right = jnp.roll(u, 1, 1), jnp.roll(u, -1, 1)
        u = u + 0.1 * (left + right - 2 * u)
        return u, None

    return lax.scan(step, x, None, length=10)[0]


def polynomial(x):
    y = x
    for i in range(8):
        y = y * x * 0.5 + i
    return y


def cumulative(x):
    sums = jnp.cumsum(x, axis=1)
    largest = lax.cummax(x, axis=1)
    return sums * largest


def associative(x):
    y = lax.associative_scan(lambda a, b: a * 0.5 + b, x)
    return y


def normal_cdf(x):
    p = jax.scipy.stats.norm.cdf(x)
    z = jax.scipy.special.ndtri(jnp.clip(p, 0.05, 0.95))
    return z


def special_functions(x):
    a = jax.scipy.special.gammaln(jnp.abs(x) + 1)
    b = jax.scipy.special.erf(x)
    return a + b


def interpolation(x):
    grid = jnp.linspace(-2, 2, 9).astype(x.dtype)
    y = jnp.interp(x.reshape(-1), grid, jnp.sin(grid))
    return y


PROGRAMS = [
    *(cholesky_solve, qr, singular_values, eigenvalues, inverse, determinant, matrix_exponential, least_squares),
    *(conjugate_gradient, triangular_solve, power_iteration, fft, fft_round_trip, real_fft, fft_convolution),
    *(runge_kutta, newton, logistic_map, heat_equation, polynomial, cumulative, associative, normal_cdf),
    *(special_functions, interpolation),
]
