"""Several arrays in one buffer of 32-bit words, so that a single callback with a single operand carries them all."""

import functools
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Layout = tuple[tuple[tuple[int, ...], np.dtype], ...]
"""Shape and dtype of each array in a buffer, in order."""

_NARROW = re.compile(r"u?int[124]|float[46]_\w+")
_FEW_WORDS = 64
_MOST_WORDS = 16384
_MOST_ARRAYS = 16


def layout_of(arrays: Sequence[jax.ShapeDtypeStruct | Array | np.ndarray]) -> Layout:
    return tuple((tuple(array.shape), np.dtype(array.dtype)) for array in arrays)


def is_narrow(dtype: np.dtype) -> bool:
    """Less than a byte wide: JAX 0.8.3 garbles such values on their way out of a loop, so they travel widened."""
    return _NARROW.fullmatch(dtype.name) is not None


def widen(array: Array) -> Array:
    """The same values in a dtype of whole bytes."""
    if not is_narrow(np.dtype(array.dtype)):
        return array
    return array.astype(jnp.int32 if jnp.issubdtype(array.dtype, jnp.integer) else jnp.float32)


def words_in(shape: tuple[int, ...], dtype: np.dtype) -> int:
    count = int(np.prod(shape))
    return count * max(1, dtype.itemsize // 4)


def is_worth_packing(layout: Layout) -> bool:
    """Whether one buffer is cheaper than one operand each: a microsecond for each operand, against copying."""
    return len(layout) > 1 and sum(words_in(*entry) for entry in layout) <= _MOST_WORDS


@functools.cache
def barrier_holds() -> bool:
    """Whether XLA keeps `optimization_barrier` up to fusion on the default backend, found by compiling a sample."""

    def sample(x: Array) -> Array:
        return jnp.concatenate(lax.optimization_barrier([jnp.sin(x) * 2, jnp.cos(x) * 3]))

    with jax.ensure_compile_time_eval():
        text = jax.jit(sample).lower(jax.ShapeDtypeStruct((8,), jnp.float32)).compile().as_text()
    return (text or "").count("fusion(") > 1


def pack(arrays: Sequence[Array]) -> Array:
    """All arrays as one `uint32` vector; traced, bit for bit."""
    words = sum(words_in(*entry) for entry in layout_of(arrays))
    if words <= _FEW_WORDS:
        return _concatenated(arrays)
    # XLA would fuse every producer into the concatenation: twenty times the compile time, and slower.
    if barrier_holds():
        return _concatenated(lax.optimization_barrier(list(arrays)))
    first = _to_words(arrays[0])[:1].sum()
    return lax.cond((first | 1) != 0, _concatenated, lambda _: jnp.zeros(words, jnp.uint32), list(arrays))


def _concatenated(arrays: Sequence[Array]) -> Array:
    return jnp.concatenate([_to_words(array) for array in arrays])


def unpack(layout: Layout, buffers: np.ndarray) -> list[np.ndarray]:
    """The arrays that `pack` put into each of `buffers[n, words]`, with the `n` in front."""
    arrays, start = [], 0
    for shape, dtype in layout:
        stop = start + words_in(shape, dtype)
        arrays.append(_from_words(buffers[:, start:stop], (len(buffers), *shape), dtype))
        start = stop
    return arrays


def _to_words(array: Array) -> Array:
    dtype = np.dtype(array.dtype)
    if dtype.kind == "c":
        return jnp.concatenate([_to_words(array.real), _to_words(array.imag)])
    if dtype == np.bool_:
        words = array.astype(jnp.uint32)
    elif dtype.itemsize >= 4:
        words = lax.bitcast_convert_type(array, jnp.uint32)
    else:
        words = lax.bitcast_convert_type(array, _unsigned(dtype)).astype(jnp.uint32)
    return words.reshape(-1)


def _from_words(words: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "c":
        real, imaginary = np.split(words.view(np.float32 if dtype.itemsize == 8 else np.float64), 2, axis=1)
        whole = np.empty(real.shape, dtype)
        whole.real, whole.imag = real, imaginary  # a sum would make NaN of infinities, and lose the sign of zeros
        return whole.reshape(shape)
    if dtype == np.bool_:
        return words.astype(bool).reshape(shape)
    if dtype.itemsize >= 4:
        return words.view(dtype).reshape(shape)
    return words.astype(_unsigned(dtype)).view(dtype).reshape(shape)


def _unsigned(dtype: np.dtype) -> type[np.unsignedinteger]:
    return np.uint16 if dtype.itemsize == 2 else np.uint8
