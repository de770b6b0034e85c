#!/usr/bin/python3
"""Times the host sketch beside the same sketch as a scipy.sparse matrix product, same m, n, d, zeta, one run.

Usage: compare_scipy_product.py TALLSKETCH [--bytes 512M] [--threads 1]
scipy multiplies on one thread, so one thread is the fair comparison; forming S and multiplying are told apart.
Prints one JSON line a shape.
"""
import argparse
import json
import os
import subprocess
import time

import numpy as np
import scipy.sparse


def scipy_seconds(m, n, d, zeta, rng):
    """Best of three, after one warm-up: (forming S, S @ A)."""
    a = rng.standard_normal((m, n), dtype=np.float32)
    size = d // zeta
    best = [float("inf"), float("inf")]
    for repeat in range(4):
        start = time.perf_counter()
        rows = np.concatenate([block * size + rng.integers(0, size, m) for block in range(zeta)])
        cols = np.tile(np.arange(m), zeta)
        signs = rng.choice(np.array([-1, 1], dtype=np.float32), zeta * m)
        s = scipy.sparse.csr_matrix((signs, (rows, cols)), shape=(d, m))
        formed = time.perf_counter()
        product = s @ a
        done = time.perf_counter()
        assert product.shape == (d, n)
        if repeat > 0:
            best = [min(best[0], formed - start), min(best[1], done - formed)]
    return best


def tallsketch_line(binary, n, size_bytes, threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    out = subprocess.run([binary, "bench", "sketch", "--backend", "host", "--cols", str(n), "--bytes", str(size_bytes),
                          "--repeats", "5"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, check=True)
    return json.loads(out.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="path of tallsketch")
    parser.add_argument("--bytes", type=int, default=1 << 29, help="size of A, bytes; default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="threads of tallsketch; default: %(default)s")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    for n in (64, 256, 512, 1024):
        ours = tallsketch_line(options.binary, n, options.bytes, options.threads)
        form, multiply = scipy_seconds(ours["m"], n, ours["d"], ours["zeta"], rng)
        print(json.dumps({"bench": "scipy", "m": ours["m"], "n": n, "d": ours["d"], "zeta": ours["zeta"],
                          "threads": options.threads, "commit": ours["commit"],
                          "tallsketch_ms": ours["complete_ms"], "floors": ours["floors"],
                          "scipy_form_ms": 1e3 * form, "scipy_multiply_ms": 1e3 * multiply,
                          "times_faster": (form + multiply) / (1e-3 * ours["complete_ms"]),
                          "times_faster_than_multiply": multiply / (1e-3 * ours["complete_ms"])}), flush=True)


if __name__ == "__main__":
    main()
