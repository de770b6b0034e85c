#!/usr/bin/python3
"""Measures how far one-pass sketch-and-solve stays above the best residual on flights.h5, over 20 seeds.

Excess of a seed: ||A x - b|| / min ||A x - b|| - 1 in float64; the minimum by numpy.linalg.lstsq, once (memory: about
three times A in float64, 1.2 GB for the year). Prints a line for each oversampling R: median, smallest and largest excess;
beside them sqrt(R / (R - 1)) - 1, what a Gaussian sketch of d = R n rows gives for large n.

    flights_excess.py flights.h5 build/host/tallsketch
Exit: 0 both medians within their limits | 1 one above, or a solve failed | 2 usage | 3 the file cannot be read.
"""
import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

import support

LIMITS = {2: 0.50, 16: 0.045}  # of the median; the Gaussian values are 0.414 and 0.0328
SEED_TIMEOUT = 120  # seconds a solve
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1"}


class SolveError(Exception):
    """tallsketch did not deliver a usable x."""


def solve(binary, path, oversample, seed, ranks, folder):
    """Runs one sketch-and-solve and returns x (n), float64."""
    output = os.path.join(folder, "tmp.x.h5")
    command = ["mpirun", "-n", str(ranks), binary, "solve", path, "--method", "sketch-solve", "--oversample", str(oversample),
               "--seed", str(seed), "-o", output, "--quiet"]
    try:
        done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=SEED_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise SolveError(f"no end within {SEED_TIMEOUT} s: {' '.join(command)}") from error
    if done.returncode != 0:
        raise SolveError(f"exit {done.returncode}: {' '.join(command)}\n{done.stdout[-2000:]}")
    try:
        with h5py.File(output, "r") as file:
            x = file["x"][()].astype(np.float64)
    except (OSError, KeyError) as error:
        raise SolveError(f"no /x in the output: {error}: {' '.join(command)}") from error
    os.remove(output)  # the next seed must write its own
    return x


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("flights", help="file made by flights.py")
    parser.add_argument("binary", help="path of tallsketch")
    parser.add_argument("--seeds", type=support.count, default=20, metavar="N", help="seeds 0 to N - 1; default: 20")
    parser.add_argument("--ranks", type=support.count, default=2, metavar="P", help="MPI ranks; default: 2")
    arguments = parser.parse_args()
    arguments.binary = os.path.abspath(arguments.binary)
    if not (os.path.isfile(arguments.binary) and os.access(arguments.binary, os.X_OK)):
        parser.error(f"{arguments.binary} is no program")
    if shutil.which("mpirun") is None:
        parser.error("mpirun is not on PATH")
    return arguments


def main():
    arguments = parse_arguments()
    try:
        with h5py.File(arguments.flights, "r") as file:
            a, b = file["A"].astype(np.float64)[()], file["b"].astype(np.float64)[()]  # (m, n), (m)
    except (OSError, KeyError) as error:
        print(f"flights_excess.py: {arguments.flights}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 3
    m, n = a.shape
    best = np.linalg.norm(a @ np.linalg.lstsq(a, b, rcond=None)[0] - b)
    print(f"{arguments.flights}: m {m}, n {n}, least residual {best:.10e}", flush=True)

    within = True
    with tempfile.TemporaryDirectory() as folder:
        for oversample, limit in LIMITS.items():
            excess = []
            for seed in range(arguments.seeds):
                try:
                    x = solve(arguments.binary, arguments.flights, oversample, seed, arguments.ranks, folder).ravel()
                    if x.shape != (n,) or not np.isfinite(x).all():
                        raise SolveError(f"seed {seed}: /x has shape {x.shape}, expected ({n},), all finite")
                except SolveError as error:
                    print(f"flights_excess.py: {error}", file=sys.stderr)
                    return 1
                excess.append(np.linalg.norm(a @ x - b) / best - 1)
            median = float(np.median(excess))
            ok = median <= limit
            within = within and ok
            print(f"R {oversample}: excess median {median:.4f}, min {min(excess):.4f}, max {max(excess):.4f} over "
                  f"{arguments.seeds} seeds; Gaussian {math.sqrt(oversample / (oversample - 1)) - 1:.4f}, "
                  f"limit {limit}{'' if ok else ': ABOVE'}", flush=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
