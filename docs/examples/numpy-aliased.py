import jax
import numpy as np

raw = np.ones(1064, np.float32)
start = (-raw.ctypes.data // 4) % 16  # aligned, as large arrays often are
buffer = raw[start : start + 1000]
x = jax.device_put(buffer)
buffer[:] = 0.0
