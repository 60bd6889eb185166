"""CuPy or JAX, again and again the same: prints how often, whether each had the bits of the first, and a checksum.

    arrays.py cupy|jax SECONDS
"""

import hashlib
import json
import os
import sys
import time

mode, seconds = sys.argv[1], float(sys.argv[2])


def with_cupy():
    import cupy

    numbers = cupy.arange(1 << 20, dtype=cupy.float32)

    def act():
        waves = cupy.sin(numbers) * cupy.exp(-numbers / (1 << 20))
        matrix = waves.reshape(1024, 1024)
        product = matrix @ matrix.T
        spectrum = cupy.abs(cupy.fft.rfft(waves))
        ordered = cupy.sort(waves)
        parts = [product.sum(axis=0), spectrum[:1024], ordered[::1024], cupy.cumsum((waves * 1000).astype(cupy.int64))[::1024]]
        return b"".join(cupy.asnumpy(part).tobytes() for part in parts)

    return act


def with_jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    # Otherwise two processes may choose different algorithms.
    os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    import jax
    import jax.numpy as jnp
    import numpy

    def loss(weights, data):
        hidden = jnp.tanh(data @ weights)
        return jnp.mean((jax.nn.softmax(hidden @ weights.T) - data) ** 2)

    step = jax.jit(lambda weights, data: weights - 0.1 * jax.grad(loss)(weights, data))
    data = jax.random.normal(jax.random.PRNGKey(1), (512, 512))
    begin = jax.random.normal(jax.random.PRNGKey(2), (512, 512))

    def act():
        weights = begin
        for _ in range(20):
            weights = step(weights, data)
        return numpy.asarray(weights).tobytes()

    return act


act = {"cupy": with_cupy, "jax": with_jax}[mode]()
first = act()
end, count, same = time.perf_counter() + seconds, 0, 0
while time.perf_counter() < end:
    same += act() == first
    count += 1
checksum = hashlib.sha256(first).hexdigest()[:16]
print(json.dumps({"mode": mode, "rounds": count, "as_the_first": same, "checksum": checksum}), flush=True)
