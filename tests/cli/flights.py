#!/usr/bin/python3
"""Real and certified data through the program: January's flights against numpy.lstsq, NIST's Longley and Wampler.

Flights, sketch-solve: the median residual excess over 20 seeds stays within the targets of the project (0.50 at d = 2 n,
0.045 at d = 16 n); the full year is data/flights_excess.py. By default (refine) x is that of lstsq. NIST, sketch-solve: an FP32
sketch cannot give certified digits, so what happens is printed, and what is asserted is that no garbage leaves with exit 0
unless a warning says so; refined: cli/nist.py. Run by CTest as cli.flights.
"""
import math
import os
import subprocess
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import SOURCE, Checks, Folder, in_parallel, run, strict_json  # noqa: E402  pylint: disable=C0413

ONE_PASS = ["--method", "sketch-solve"]
LIMITS = {2: 0.50, 16: 0.045}  # of the median; a Gaussian sketch has 0.414 and 0.0328
SEEDS = 20
NIST = ("longley", "wampler1", "wampler2", "wampler3", "wampler4", "wampler5")
REPLICATE = 10000


def load(path):
    with h5py.File(path, "r") as file:
        return file["A"][()].astype("f8"), file["b"][()].astype("f8")


def solve(path, output, arguments, ranks):
    """The finished run, x and the report; x is None without exit 0."""
    done = run(["solve", path, "-o", output, "--report", output + ".json", *arguments], ranks=ranks)
    with open(output + ".json", encoding="utf-8") as file:
        report = strict_json(file.read())
    if done.code != 0:
        return done, None, report
    with h5py.File(output, "r") as file:
        return done, file["x"][()], report


def check_flights(checks, folder):
    path = os.path.join(SOURCE, "data", "flights_january.h5")
    a, b = load(path)
    m, n = a.shape
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    least = np.linalg.norm(a @ best - b)
    checks.check("flights: the least residual is that of data/README.md", abs(least / 1837.6218522 - 1) < 1e-9, least)

    def one(job):
        oversample, seed = job
        ranks = 1 + seed % 2
        done, x, report = solve(path, os.path.join(folder, f"f.{oversample}.{seed}.h5"),
                                [*ONE_PASS, "--oversample", oversample, "--seed", seed, "--quiet"], ranks)
        name = f"flights: R = {oversample}, seed {seed}, {ranks} ranks"
        if not checks.check(f"{name}: exit 0, full rank", done.code == 0 and report["solver"]["rank"] == n, done):
            return math.inf
        excess = np.linalg.norm(a @ x - b) / least - 1
        checks.check(f"{name}: no less than the least", excess > -1e-9, excess)
        checks.check(f"{name}: the estimate of the residual within 40 %",
                     abs(report["solver"]["residual_norm"] / least / (1 + excess) - 1) < 0.4, report["solver"])
        return excess

    for ranks, options in ((1, []), (2, []), (3, ["--preconditioner", "sketch"])):
        done, x, report = solve(path, os.path.join(folder, f"f.{ranks}.h5"), options, ranks)
        name = f"flights: refined {' '.join(options)}, {ranks} ranks"
        if not checks.check(f"{name}: exit 0", done.code == 0, done):
            continue
        solver = report["solver"]
        checks.check(f"{name}: the default, certified", (solver["method"], solver["reason"]) == ("refine", "certificate met") and
                     solver["backward_error"] <= 1e-12 and solver["rank"] == n, solver)
        difference = np.linalg.norm(x - best) / np.linalg.norm(best)
        print(f"{name}: condition {solver['condition_estimate']:.3g}, x differs from lstsq's by {difference:.2g}, "
              f"{solver['passes']} passes, backward error {solver['backward_error']:.2g}")
        # A backward error of 1e-12 moves x by the condition times that, and once more where the residual is large.
        checks.check(f"{name}: x is lstsq's", difference < 1e-12 * 10 * solver["condition_estimate"] ** 2, difference)
        checks.check(f"{name}: the residual is the least", abs(np.linalg.norm(a @ x - b) / least - 1) < 1e-9)
    for oversample, limit in LIMITS.items():
        excess = in_parallel(one, [(oversample, seed) for seed in range(SEEDS)])
        print(f"flights January, {m} x {n}, R {oversample}: excess median {np.median(excess):.4f}, min {min(excess):.4f}, "
              f"max {max(excess):.4f} over {SEEDS} seeds; Gaussian {math.sqrt(oversample / (oversample - 1)) - 1:.4f}, limit {limit}",
              flush=True)
        checks.check(f"flights: median excess at R = {oversample} <= {limit}", np.median(excess) <= limit, excess)


def check_nist(checks, folder):
    made = subprocess.run([sys.executable, os.path.join(SOURCE, "data", "nist.py"), *NIST, "-o", folder, "--replicate",
                           str(REPLICATE)], check=False, capture_output=True, text=True)
    if not checks.check("nist.py writes the files", made.returncode == 0, made.stdout + made.stderr):
        return

    def one(job):
        name, ranks = job
        path = os.path.join(folder, name + ".h5")
        done, x, report = solve(path, os.path.join(folder, f"{name}.{ranks}.x.h5"), [*ONE_PASS, "--oversample", 16], ranks)
        label = f"NIST {name}, {ranks} ranks"
        checks.check(f"{label}: solved, or refused as rank deficient", done.code in (0, 5), done)
        warned = [warning for warning in report["warnings"] if "null" not in warning]
        if x is None:
            return f"{label}: exit {done.code}: {report['message']}"
        with h5py.File(path, "r") as file:
            m, n = file["A"].shape
            a, b, certified = file["A"][:m // REPLICATE], file["b"][:m // REPLICATE], file["x_certified"][()]
        residual, least = np.linalg.norm(a @ x - b), np.linalg.norm(a @ certified - b)
        worst = np.max(np.abs(x - certified) / np.abs(certified))
        checks.check(f"{label}: x is finite", np.isfinite(x).all(), x)
        # One pass loses sqrt(d / (d - n)) - 1, here below 0.1 for the worst seed; rounding A to FP32 and an FP32 QR move the
        # residual by cond 1e5 x 6e-8 of ||b|| at most. Beyond that x is garbage, and a warning has to say so.
        garbage = not residual <= 1.2 * least + 6e-3 * np.linalg.norm(b)
        checks.check(f"{label}: no garbage without a warning", not garbage or warned, f"{x}\n{certified}\n{done}")
        return (f"{label}: exit 0, condition {report['solver']['condition_estimate']:.2g}, residual {residual:.6g} (least {least:.6g}, "
                f"||b|| {np.linalg.norm(b):.3g}), worst component off by {worst:.2g}{', warned' if warned else ''}")

    for line in in_parallel(one, [(name, ranks) for name in NIST for ranks in (1, 3)]):
        print(line)


def main():
    checks = Checks()
    print(f"sketch seeds 0 to {SEEDS - 1}")
    with Folder() as folder:
        check_flights(checks, folder)
        check_nist(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
