#!/usr/bin/python3
"""Matrices larger than the memory given: the same x as in memory, in every residency, at 1 to 4 ranks, and no more memory
than the plan says."""

import os
import sys

import h5py
import numpy as np

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)
from script_runs import MPIEXEC, PROGRAM, Checks, Folder, run, run_command, strict_json  # noqa: E402

checks = Checks()
MIB = 1 << 20
M = 400_011


def write(name, m, n, integers, **options):
    """A problem with known answer; b with noise, so that the residual is not zero."""
    g = np.random.default_rng(m + n)
    with h5py.File(name, "w") as f:
        a = f.create_dataset("A", (m, n), "f4", **options)
        b = f.create_dataset("b", (m,), "f4")
        x = g.integers(-3, 4, n) if integers else g.standard_normal(n)
        for begin in range(0, m, 20000):
            rows = min(20000, m - begin)
            part = g.integers(-8, 9, (rows, n)) if integers else g.standard_normal((rows, n))
            a[begin : begin + rows] = part
            b[begin : begin + rows] = part.astype("f4") @ x + (g.integers(-5, 6, rows) if integers else g.standard_normal(rows))


def solve(name, ranks, *options):
    """x, and the report; None and None, and a failed check, where it does not end well."""
    done = run(["solve", name, "-o", "x.h5", "--report", "r.json", *options], ranks)
    if not checks.check(f"{name} at {ranks} ranks {options} is solved", done.code == 0, done):
        return None, None
    with h5py.File("x.h5") as f:
        x = f["x"][()]
    with open("r.json", encoding="utf-8") as f:
        report = strict_json(f.read())
    os.remove("x.h5")
    return x, report


def expect(condition, what):
    checks.check(what, condition)


def same_x_in_less_memory():
    write("exact.h5", M, 40, integers=True)
    with h5py.File("exact.h5") as f:
        best = np.linalg.lstsq(f["A"][()].astype("f8"), f["b"][()].astype("f8"), rcond=None)[0]

    def refined(ranks, method, less, residency):
        x, report = solve("exact.h5", ranks, *method, *less)
        if x is None:
            return best
        expect(report["plan"]["residency"] == residency, f"{less} at {ranks} ranks: {report['plan']['residency']}")
        expect(np.linalg.norm(x - best) < 1e-9 * np.linalg.norm(best), f"{less} at {ranks} ranks: as numpy's x")
        return x

    def sketched(ranks, *less):
        return solve("exact.h5", ranks, "--method", "sketch-solve", *less)[0]

    one = sketched(1, "--residency", "host")
    for ranks in (1, 2, 3, 4):
        share = ["--memory", str(int(M * 40 * 4 / ranks / 2.5))]  # 2.5 times as much data as memory
        method = [[], ["--preconditioner", "sketch", "--oversample", "4"]][ranks % 2]
        kept = refined(ranks, method, [], "host")
        for less in (share, ["--residency", "file", "--chunk-rows", "9999"]):
            x = refined(ranks, method, less, "file")
            # Passes add up in other chunks, so up to rounding.
            expect(np.linalg.norm(x - kept) < 1e-11 * np.linalg.norm(best), f"{less} at {ranks} ranks: the x of kept rows")
        # One pass of integers: the same bits in any chunks and at any number of ranks.
        for less in (share, ["--residency", "file", "--chunk-rows", "7777"]):
            expect(np.array_equal(one, sketched(ranks, *less)), f"sketch-solve {less} at {ranks} ranks: the same bits")


def peak_of(*arguments):
    """Bytes that the largest of two ranks held."""
    watch = os.path.join(SUPPORT, "peak_memory.py")
    done = run_command([sys.executable, watch, MPIEXEC, "-n", "2", PROGRAM, *arguments])
    checks.check(f"{arguments} ends well", done.code == 0, done)
    return int(done.out.split("peak_memory ")[-1])


def no_more_memory_than_planned():
    write("large.h5", 250000, 256, integers=False)  # 256 MB
    write("packed.h5", 60000, 256, integers=False, chunks=(1000, 40), compression="gzip", compression_opts=1, shuffle=True)
    for name, options in (
        ("packed.h5", ["--residency", "file", "--chunk-rows", "4000", "--preconditioner", "gram"]),
        ("large.h5", ["--memory", "40MiB", "--method", "sketch-solve"]),
        ("large.h5", ["--memory", "50MiB"]),
        ("large.h5", ["--memory", "80MiB", "--preconditioner", "sketch", "--max-iters", "60"]),
        ("large.h5", ["--residency", "file"]),
        ("large.h5", ["--residency", "host"]),
    ):
        base = peak_of("inspect", name)  # what the program and its libraries take before it has a row
        grown = peak_of("solve", name, "-o", "x.h5", "--report", "r.json", *options) - base
        with open("r.json", encoding="utf-8") as f:
            planned = strict_json(f.read())["plan"]["memory_bytes"]
        what = f"{name} {' '.join(options)}: planned {planned / MIB:.1f} MiB, held {grown / MIB:.1f} MiB"
        print(what)
        expect(0.4 * planned <= grown <= 1.1 * planned, what)
        if "--memory" in options:
            expect(planned <= int(options[1][:-3]) * MIB, f"{options}: planned {planned}")


def refused():
    for options, code, words in (
        (["--residency", "device"], 2, "--residency host"),
        (["--residency", "host", "--memory", "1MiB"], 7, "--residency file"),
        (["--memory", "1k"], 7, "--memory"),
        (["--residency", "tape"], 2, "--residency"),
    ):
        done = run(["solve", "exact.h5", "-o", "x.h5", *options], 2)
        checks.check(f"{options} is refused with {code} and '{words}'", done.code == code and words in done.err, done)
        expect(not os.path.exists("x.h5"), f"{options}: no output is left")


with Folder() as folder:
    os.chdir(folder)
    no_more_memory_than_planned()
    same_x_in_less_memory()
    refused()
sys.exit(checks.finish())
