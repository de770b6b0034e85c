#!/usr/bin/python3
"""How far `tallsketch solve --method refine` gets on ill-conditioned problems: its certificate beside the truth.

Usage: TALLSKETCH=build/host/tallsketch refine_accuracy.py [--cond 2,1e4,3e8,3e10] [--rows 50000] [--cols 100] [--ranks 2]
Problems of `generate --kind illcond --dtype f8`. Prints one JSON line a problem: passes, the certificate, the true backward
error of x and that of LAPACK's QR (Walden-Karlson-Sun by SVD, tests/bench/refine_methods.py), all of the problem with
columns scaled to powers of two near 1, relative to its Frobenius norm. Needs scipy. Counts and errors, no times.
"""
import argparse
import json
import os
import sys

import h5py
import numpy as np
from refine_methods import numbers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from least_squares import column_scales, direct_solution, true_backward_error  # noqa: E402  pylint: disable=C0413
from script_runs import Folder, run, strict_json  # noqa: E402  pylint: disable=C0413


def tallsketch(*arguments, **options):
    done = run(arguments, **options)
    if done.code != 0:
        sys.exit(str(done))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cond", type=numbers, default=[2, 1e4, 3e8, 3e10])
    parser.add_argument("--rows", type=int, default=50000)
    parser.add_argument("--cols", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    for cond in options.cond:
        with Folder() as folder:
            problem, solution, report = (os.path.join(folder, name) for name in ("p.h5", "x.h5", "r.json"))
            tallsketch("generate", problem, "--kind", "illcond", "--cond", cond, "--dtype", "f8", "--rows", options.rows,
                       "--cols", options.cols)
            tallsketch("solve", problem, "--method", "refine", "-o", solution, "--report", report, ranks=options.ranks)
            with h5py.File(problem, "r") as file:
                a, b = file["A"][()], file["b"][()].reshape(-1)
            with h5py.File(solution, "r") as file:
                x = file["x"][()].reshape(-1)
            with open(report, encoding="utf-8") as file:
                document = strict_json(file.read())
        scale = column_scales(a)
        scaled, solver = a * scale, document["solver"]
        print(json.dumps({"bench": "refine_accuracy", "commit": document["tool"]["git"], "m": options.rows, "n": options.cols,
                          "cond": cond, "scaled_cond": float(f"{np.linalg.cond(scaled):.2e}"), "ranks": options.ranks,
                          "passes": solver["passes"], "certificate": float(f"{solver['backward_error']:.2e}"),
                          "backward_error": float(f"{true_backward_error(scaled, b, x / scale):.2e}"),
                          "direct_backward_error":
                              float(f"{true_backward_error(scaled, b, direct_solution(scaled, b)):.2e}")}), flush=True)


if __name__ == "__main__":
    main()
