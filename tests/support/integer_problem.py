"""A least-squares problem of small integers in a file: its sketches and Gram matrices have the same bits in any order of
summation, so that runs on different ranks and nodes can be compared exactly.

Used by tests/slurm/*.py.
"""
import h5py
import numpy as np

SEED = 3


def write_integer_problem(path, rows, cols):
    """A (rows, cols) and b (rows) of integers in -8 ... 8, float64."""
    generator = np.random.default_rng(SEED)
    with h5py.File(path, "w") as file:
        file["A"] = generator.integers(-8, 9, (rows, cols)).astype("f8")
        file["b"] = generator.integers(-8, 9, rows).astype("f8")


def read_x(path):
    """x of a result; None if there is none."""
    try:
        with h5py.File(path, "r") as file:
            return file["x"][()]
    except OSError:
        return None


def same_bits(one, other):
    """Whether two results have the same bits; False where one is missing."""
    return one is not None and other is not None and one.tobytes() == other.tobytes()


def same_to_rounding(one, other):
    """Whether two refined results agree to the rounding of their FP64 sums."""
    return one is not None and other is not None and bool(np.allclose(one, other, rtol=1e-12, atol=1e-14))
