#!/usr/bin/python3
"""Problems that are made as they are read: `solve --kind` gives the x of `generate` and `solve`, at any ranks; and what a
long run says while it works.

Run by CTest as cli.synthetic.
"""
import os
import re
import signal
import subprocess
import sys
import threading

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import LIMIT_SECONDS, PROGRAM, Checks, Folder, in_parallel, read_x, run, strict_json  # noqa: E402  pylint: disable=C0413

M, N = 3001, 11
PROBLEM = ["--rows", M, "--cols", N, "--cond", 100, "--rank", 4, "--noise", 0.2]


def check_same_as_stored(checks, folder):
    """For every kind, and types and methods: bytes of x, and the error against x_true."""
    kinds = ("gaussian", "coherent", "coordinate", "lowrank", "illcond", "uniform")
    jobs = [(kind, "f4", (), ranks) for kind in kinds for ranks in (1, 3)]
    jobs += [("uniform", dtype, options, 2) for dtype in ("f8", "f2") for options in ((), ("--method", "sketch-solve"))]

    def one(job):
        kind, dtype, options, ranks = job
        name = f"{kind} {dtype} {' '.join(options)} on {ranks} ranks"
        stem = os.path.join(folder, f"{kind}.{dtype}.{len(options)}.{ranks}")
        problem = ["--kind", kind, "--dtype", dtype, *PROBLEM]
        made = run(["generate", stem + ".h5", *problem, "--seed", 8], cwd=folder)
        common = [*options, "--chunk-rows", 500]
        stored = run(["solve", stem + ".h5", "-o", stem + ".stored.h5", *common], ranks=ranks, cwd=folder)
        direct = run(["solve", *problem, "--data-seed", 8, "-o", stem + ".made.h5", "--report", stem + ".json", *common],
                     ranks=ranks, cwd=folder)
        if not checks.check(f"{name}: exit 0", (made.code, stored.code, direct.code) == (0, 0, 0), f"{made}{stored}{direct}"):
            return
        x = read_x(stem + ".made.h5")
        checks.check(f"{name}: x of generate and solve", x.tobytes() == read_x(stem + ".stored.h5").tobytes(),
                     x - read_x(stem + ".stored.h5"))
        with h5py.File(stem + ".h5", "r") as file:
            x_true = file["x_true"][()]
        told = re.findall(r"error of x against x_true: (\S+) of", direct.out)
        error = np.linalg.norm(x - x_true) / np.linalg.norm(x_true)
        checks.check(f"{name}: the error against x_true is told", len(told) == 1 and
                     abs(float(told[0]) - error) <= 0.06 * error, f"{error} {direct}")  # two digits
        checks.check(f"{name}: not told of a file", "x_true" not in stored.out, stored)
        with open(stem + ".json", encoding="utf-8") as file:
            problem = strict_json(file.read())["problem"]
        checks.check(f"{name}: the report says what was solved", problem["files"] == [] and problem["m"] == M and
                     problem["a"] == f"synthetic {kind}", problem)

    in_parallel(one, jobs)


def check_names(checks, folder):
    """The default output, and inspect, which makes no row."""
    done = run(["solve", "--kind", "uniform", "--rows", 40, "--cols", 3], cwd=folder)
    checks.check("default output: synthetic.x.h5 in this folder", done.code == 0 and
                 os.path.exists(os.path.join(folder, "synthetic.x.h5")), done)
    done = run(["inspect", "--kind", "uniform", "--rows", "1000G", "--cols", "1k", "--memory", "1G"], cwd=folder)
    checks.check("inspect: the plan of a problem that no machine holds", done.code == 0 and
                 "1000000000000 x 1000" in done.out and "plan:" in done.out, done)
    again = run(["solve", "--kind", "uniform", "--rows", 40, "--cols", 3, "--data-seed", 1, "-o", "other.h5"], cwd=folder)
    checks.check("another --data-seed: another x", again.code == 0 and not np.array_equal(
        read_x(os.path.join(folder, "other.h5")), read_x(os.path.join(folder, "synthetic.x.h5"))), again)


def check_progress(checks, folder):
    """A run of many hours speaks again and again (how often: unit.progress); --quiet says nothing; both end by a signal."""
    command = [PROGRAM, "solve", "--kind", "uniform", "--rows", "1000G", "--cols", "64", "--method", "sketch-solve",
               "--memory", "200M", "--backend", "host"]
    pattern = r"sketch: \d+ %, \d+\.\d\d GB/s, about \d+ s left(; unchanged for \d+ s)?\n"
    # pylint: disable=consider-using-with
    loud = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    quiet = subprocess.Popen([*command, "--quiet"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    limit = threading.Timer(LIMIT_SECONDS, loud.kill)  # no line: the loop below ends
    limit.start()
    out, told = "", 0
    while told < 2:
        line = loud.stdout.readline().decode()
        out += line
        told += re.fullmatch(pattern, line) is not None
        if not line:
            break
    limit.cancel()
    for process in (loud, quiet):
        process.send_signal(signal.SIGTERM)
    silent = quiet.communicate(timeout=LIMIT_SECONDS)[0].decode()
    loud.communicate(timeout=LIMIT_SECONDS)
    checks.check("a long run: lines of progress within a minute", told == 2, out)
    checks.check("no control characters but the ends of lines", all(
        character == "\n" or ord(character) >= 32 for character in out), repr(out))
    checks.check("--quiet says nothing", silent == "", silent)


def main():
    checks = Checks()
    with Folder() as folder:
        for part in (check_same_as_stored, check_names, check_progress):
            part(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
