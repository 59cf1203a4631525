"""Solvers of Diffrax, Lineax and Optimistix: what they are given, and what they return."""

import pytest
from failing_cells import failed

IMPORTS = """
import jax, jax.numpy as jnp, diffrax as dfx, lineax as lx, optimistix as optx
def field(t, y, args):
    return -y
term, y0, matrix = dfx.ODETerm(field), jnp.ones(2), jnp.array([[2.0, 1.0], [1.0, 3.0]])
"""

CALLS = [
    (
        "out = dfx.diffeqsolve(field, dfx.Tsit5(), 0.0, 1.0, 0.1, y0)",
        "dfx.diffeqsolve(dfx.ODETerm(field), dfx.Tsit5(), 0.0, 1.0, 0.1, y0)",
        "`field` is a function, and `diffeqsolve` takes a term",
    ),
    (
        "def decay(y, t):\n    return -y\nout = dfx.diffeqsolve(dfx.ODETerm(decay), dfx.Tsit5(), 0.0, 1.0, 0.1, y0)",
        "t, y, args",
        "`decay` takes `y` and `t`",
    ),
    (
        "class Model:\n    def solve(self, y0):\n        def decay(t, y):\n            return -y\n"
        "        term = dfx.ODETerm(decay)\n        return dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y0)\n"
        "out = jax.jit(lambda y: Model().solve(y).ys)(y0)",
        "t, y, args",
        "`decay` takes `t` and `y`",
    ),
    ("out = dfx.diffeqsolve(term, dfx.Tsit5, 0.0, 1.0, 0.1, y0)", "dfx.Tsit5()", "is the class of the solver"),
    (
        "out = dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y0, saveat=jnp.linspace(0.0, 1.0, 5))",
        "saveat=dfx.SaveAt(ts=jnp.linspace(0.0, 1.0, 5))",
        "is an array, and `saveat` takes a `SaveAt`",
    ),
    ("out = dfx.diffeqsolve(term, dfx.Tsit5(), 0, 1, None, y0)", "dfx.PIDController(", "`dt0` is None"),
    (
        "control = dfx.PIDController(1e-3, 1e-6)\n"
        "out = dfx.diffeqsolve(term, dfx.Euler(), 0, 1, 0.1, y0, stepsize_controller=control)",
        "dfx.Heun()",
        "has no error estimate",
    ),
    ("out = dfx.diffeqsolve(term, dfx.Tsit5(), 1.0, 0.0, dt0=0.1, y0=y0)", "dt0=-0.1", "from 1.0 back to 0.0"),
    ("out = dfx.diffeqsolve(term, dfx.Tsit5(), 0, 10, 0.001, y0)", "max_steps=10001", "needs more steps"),
    (
        "out = dfx.diffeqsolve(term, dfx.Tsit5(), 0, 1, 0.1, y0, saveat=dfx.SaveAt(steps=True), max_steps=None)",
        "saveat=dfx.SaveAt(steps=True))",
        "leaves the number of steps open",
    ),
    ("out = lx.linear_solve(matrix, y0)", "lx.MatrixLinearOperator(matrix)", "`matrix` is an array"),
    (
        "tall = lx.MatrixLinearOperator(jnp.eye(3)[:, :2])\nout = lx.linear_solve(tall, jnp.ones(3))",
        "solver=lx.AutoLinearSolver(well_posed=False)",
        "`tall` is not square",
    ),
    (
        "out = jax.jit(lambda a: lx.linear_solve(lx.MatrixLinearOperator(a), y0, lx.CG(1e-3, 1e-3)).value)(matrix)",
        "lx.MatrixLinearOperator(a, lx.positive_semidefinite_tag)",
        "`CG` works on positive definite operators",
    ),
    (
        "out = optx.minimise(lambda y: (y**2).sum(), optx.BFGS(1e-3, 1e-3), y0)",
        "y, args",
        "`minimise` calls its function with `y` and `args`",
    ),
]


@pytest.mark.parametrize(("call", "fix", "said"), CALLS)
def test_what_a_solver_lacks_is_given_to_it(call: str, fix: str, said: str):
    program = failed(IMPORTS, call)
    assert program.finding.rule == "solver-call"
    assert said in program.finding.title
    assert fix in program.finding.fix
    assert "out" in program.fixed().namespace


TOLD = [
    (
        "out = lx.linear_solve(lx.MatrixLinearOperator(matrix), jnp.ones(3))",
        "shape (3,), and the operator gives (2",
    ),
    ("optx.root_find(lambda y, args: y**2 + 2, optx.Newton(1e-3, 1e-3), 1.0, max_steps=5)", "did not get to its end"),
    (
        "def doubled(t, y, args):\n    return jnp.concatenate([y, y])\n"
        "dfx.diffeqsolve(dfx.ODETerm(doubled), dfx.Tsit5(), 0.0, 1.0, 0.1, y0)",
        "the vector field `doubled` gives something of another shape than the state `y0` (f32[2])",
    ),
]


@pytest.mark.parametrize(("call", "said"), TOLD)
def test_what_does_not_fit_a_solver_is_said(call: str, said: str):
    program = failed(IMPORTS, call)
    assert program.finding.rule == "solver-call"
    assert said in program.finding.title
    assert program.finding.fix == ""


SOLUTIONS = [
    (
        "solution-not-array",
        "out = lx.linear_solve(lx.MatrixLinearOperator(matrix), y0) + 1",
        "lx.linear_solve(lx.MatrixLinearOperator(matrix), y0).value + 1",
    ),
    (
        "solution-not-array",
        "class Fit:\n    def best(self, y):\n"
        "        found = optx.minimise(lambda y, args: (y**2).sum(), optx.BFGS(1e-3, 1e-3), y)\n"
        "        return jnp.sin(found)\nout = Fit().best(y0)",
        "jnp.sin(found.value)",
    ),
    (
        "solution-not-array",
        "sol = dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y0)\nout = 2 * sol",
        "2 * sol.ys",
    ),
    (
        "solution-not-saved",
        "sol = dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y0)\nout = sol.evaluate(0.5)",
        "saveat=dfx.SaveAt(dense=True)",
    ),
    (
        "solution-not-saved",
        "def loss(y):\n    sol = dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y, max_steps=None)\n"
        "    return sol.ys.sum()\nout = jax.grad(loss)(y0)",
        "dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y)",
    ),
]


@pytest.mark.parametrize(("rule", "call", "fix"), SOLUTIONS)
def test_a_solution_is_taken_apart_or_kept(rule: str, call: str, fix: str):
    program = failed(IMPORTS, call)
    assert program.finding.rule == rule
    assert fix in program.finding.fix
    assert "out" in program.fixed().namespace


COUNTS = [
    ("def f(x, y):\n    return x + y\ny = y0", "out = jax.vmap(f)(y0)", "jax.vmap(f)(y0, y)", "`y` is not given"),
    (
        "def f(x, *, scale):\n    return x * scale\nclass Run:\n    def go(self, x, scale):\n"
        "        return jax.jit(f)(x)",
        "out = Run().go(y0, 2.0)",
        "jax.jit(f)(x, scale=scale)",
        "`scale` is not given",
    ),
    (
        "def loss(w, batch):\n    x, y = batch\n    return ((w * x - y) ** 2).sum()",
        "out = jax.value_and_grad(loss)(1.0, y0, y0)",
        "jax.value_and_grad(loss)(1.0, (y0, y0))",
        "3 are given by position",
    ),
    (
        "@jax.jit\ndef f(x, scale):\n    return x * scale",
        "out = f(y0, scal=2.0)",
        "f(y0, scale=2.0)",
        "`scal` is none of them",
    ),
    ("def f(x):\n    return x.sum()", "jax.grad(f)(y0, 2)", "", "`f` takes `x`, and 2 are given"),
]


@pytest.mark.parametrize(("before", "call", "fix", "said"), COUNTS)
def test_arguments_of_a_transformed_function_are_counted(before: str, call: str, fix: str, said: str):
    program = failed(IMPORTS + before, call)
    assert program.finding.rule == "argument-count"
    assert said in program.finding.title
    assert program.finding.fix == fix
    assert not fix or "out" in program.fixed().namespace
