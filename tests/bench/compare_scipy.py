#!/usr/bin/python3
"""`tallsketch solve` beside scipy's lstsq and lsqr, and sklearn's LinearRegression: time and backward error.

Usage: TALLSKETCH=build/host/tallsketch compare_scipy.py [--problems 100000x100:1,100000x100:1e8,...] [--repeats 3]
                                                        [--json FILE]
Problems, m x n : condition: Gaussian float64 A, or one with the condition asked for, b = A x + noise, in HDF5 files that
were just written (page cache); and data/flights_january.h5. tallsketch runs with default options, as 1 rank on 2 threads
and as 2 ranks on 1. Times, the best of the repeats, which take turns (a contestant above 5 s is not repeated):
  solve    tallsketch: sketch, reduce, factor, refine of its report (the slowest rank's), without open, read, write;
           the others: the call, with A and b as float64 arrays in memory, 2 threads
  command  tallsketch alone: the whole command, with the start of MPI, reading and writing
lsqr runs with its default tolerances (1e-6) and with 1e-15. Backward error: the true one of the column-scaled problem
(tests/support/least_squares.py). Prints a table; JSON lines go to FILE, one a problem and contestant.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import h5py
import numpy as np
import scipy.linalg
import scipy.sparse.linalg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from least_squares import scaled_backward_error, write_problem  # noqa: E402  pylint: disable=C0413
from script_runs import SOURCE, Folder, run, strict_json  # noqa: E402  pylint: disable=C0413

THREADS = 2
LAYOUTS = ((1, THREADS), (THREADS, 1))  # ranks, threads
PROBLEMS = "100000x100:1,100000x100:1e8,400000x64:1,400000x64:1e8,100000x400:1"
NOT_REPEATED = 5  # seconds
PHASES = ("sketch", "reduce", "factor", "refine")
SEED = 1


def lsqr_tight(a, b):
    return scipy.sparse.linalg.lsqr(a, b, atol=1e-15, btol=1e-15, conlim=0)[0]


def regression(a, b):
    from sklearn.linear_model import LinearRegression  # pylint: disable=C0415
    return LinearRegression(fit_intercept=False, copy_X=True).fit(a, b).coef_


RIVALS = {"lstsq": lambda a, b: scipy.linalg.lstsq(a, b)[0], "lsqr": lambda a, b: scipy.sparse.linalg.lsqr(a, b)[0],
          "lsqr 1e-15": lsqr_tight}


def have_sklearn():
    return subprocess.run([sys.executable, "-c", "import sklearn.linear_model"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def load(path):
    with h5py.File(path, "r") as file:
        return file["A"][()], file["b"][()].reshape(-1)


def call_rival(name, path, output):
    """In a process of its own, so that the number of threads is known."""
    a, b = (part.astype("f8") for part in load(path))
    solver = RIVALS.get(name, regression)
    if name == "LinearRegression":
        regression(a[:999], b[:999])  # its imports
    start = time.perf_counter()
    x = solver(a, b)
    seconds = time.perf_counter() - start
    np.save(output, x.astype("f8"))
    print(json.dumps({"solve_s": seconds}))


def time_rival(name, path, folder):
    output = os.path.join(folder, "rival.npy")
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": str(THREADS), "OMP_NUM_THREADS": str(THREADS)}
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--rival", name, path, output], env=variables,
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout), np.load(output)


def time_tallsketch(ranks, threads, path, folder):
    output, report = os.path.join(folder, "x.h5"), os.path.join(folder, "r.json")
    variables = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
                 "OMPI_MCA_hwloc_base_binding_policy": "none"}
    done = run(["solve", path, "-o", output, "--report", report, "--quiet"], ranks=ranks, environment=variables)
    if done.code != 0:
        sys.exit(str(done))
    with open(report, encoding="utf-8") as file:
        document = strict_json(file.read())
    with h5py.File(output, "r") as file:
        x = file["x"][()].reshape(-1)
    timing, solver = document["timing"], document["solver"]
    return {"solve_s": sum(timing[phase]["max"] for phase in PHASES), "command_s": done.seconds,
            "read_s": timing["read"]["max"], **{f"{phase}_s": timing[phase]["max"] for phase in PHASES},
            "passes": solver["passes"], "preconditioner": solver["preconditioner"],
            "certificate": solver["backward_error"], "commit": document["tool"]["git"]}, x


def compare(path, label, repeats, folder, rivals):
    """One line a contestant, the best of the repeats."""
    contestants = {f"tallsketch {ranks} x {threads}": (time_tallsketch, (ranks, threads)) for ranks, threads in LAYOUTS}
    contestants.update({name: (time_rival, (name,)) for name in rivals})
    best, found = {}, {}
    for _ in range(repeats):
        for who, (measure, arguments) in contestants.items():
            if who in best and best[who]["solve_s"] > NOT_REPEATED:
                continue
            figures, found[who] = measure(*arguments, path, folder)
            so_far = best.setdefault(who, figures)
            best[who] = dict(min(so_far, figures, key=lambda one: one["solve_s"]))
            if "command_s" in figures:
                best[who]["command_s"] = min(so_far["command_s"], figures["command_s"])
    a, b = (part.astype("f8") for part in load(path))
    lines = []
    for who, figures in best.items():
        with h5py.File(path, "r") as file:
            dtype = str(file["A"].dtype)
        lines.append({"bench": "compare_scipy", "problem": label, "m": a.shape[0], "n": a.shape[1], "dtype": dtype,
                      "who": who, "repeats": repeats, "load": round(os.getloadavg()[0], 1),
                      **{key: float(f"{value:.4g}") if isinstance(value, float) else value
                         for key, value in figures.items()},
                      "backward_error": float(f"{scaled_backward_error(a, b, found[who]):.2e}")})
    print_table(lines)
    return lines


def make_file(path, m, n, cond):
    rng = np.random.default_rng(SEED)
    a = rng.standard_normal((m, n))
    if cond > 1:  # a Gaussian A has condition (1 + sqrt(n / m)) / (1 - sqrt(n / m))
        u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        a = a @ ((u * np.logspace(0, -np.log10(cond), n)) @ v)
    x = rng.standard_normal(n)
    b = a @ x
    write_problem(path, a, b + np.linalg.norm(b) / np.sqrt(m) * rng.standard_normal(m))


def print_table(lines):
    print(f"{'m x n':>14} {'problem':12} {'who':18} {'solve s':>9} {'command s':>9} {'backward error':>14}  notes")
    for line in lines:
        note = f"{line['preconditioner']}, {line['passes']} passes, read {line['read_s']} s" if "passes" in line else ""
        command = f"{line['command_s']:9.3f}" if "command_s" in line else " " * 9
        print(f"{line['m']:>8} x {line['n']:<3} {line['problem']:12} {line['who']:18} {line['solve_s']:9.3f} {command} "
              f"{line['backward_error']:14.1e}  {note}", flush=True)


def main():
    if sys.argv[1:2] == ["--rival"]:
        call_rival(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=PROBLEMS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    lines = []
    with Folder() as folder:
        path = os.path.join(folder, "p.h5")
        for problem in options.problems.split(","):
            shape, cond = problem.split(":")
            m, n = map(int, shape.split("x"))
            make_file(path, m, n, float(cond))
            lines += compare(path, "gaussian" if float(cond) == 1 else f"cond {cond}", options.repeats, folder, RIVALS)
        rivals = [*RIVALS, *(["LinearRegression"] if have_sklearn() else [])]
        flights = os.path.join(SOURCE, "data", "flights_january.h5")
        lines += compare(flights, "flights", options.repeats, folder, rivals)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
