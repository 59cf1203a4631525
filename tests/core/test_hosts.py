"""What host functions returned, taken again when a program is evaluated once more."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from jaxmagic.core.nonfinite.hosts import Answer, Answers, Replay


def twice(v):
    return np.asarray(v) * 2


def asked(kind):
    """The equation of a call of the host for three numbers."""
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    (equation,) = jax.make_jaxpr(lambda x: kind(twice, shape, x))(jnp.ones(3)).eqns
    return equation


def answers(equation, *given: np.ndarray) -> Answers:
    kept = Answers()
    for each in given:
        kept.add(Answer(equation.params["callback"], (each,), (each * 2,)))
    return kept


ONE, OTHER = np.arange(3, dtype=np.float32), np.ones(3, np.float32)


def test_answers_are_found_by_what_was_asked_in_whatever_order():
    equation = asked(io_callback)
    replay = Replay(answers(equation, ONE, OTHER))
    for given in (OTHER, ONE):
        (out,) = replay.outs(equation, [given], traced=False)
        assert np.array_equal(out, given * 2)
    assert not replay.missed


def test_an_effect_is_answered_once_and_a_pure_function_as_often_as_it_is_asked():
    for kind, missed in ((io_callback, True), (jax.pure_callback, False)):
        equation = asked(kind)
        replay = Replay(answers(equation, ONE))
        for _ in range(2):
            replay.outs(equation, [ONE], traced=False)
        assert replay.missed is missed
