#!/usr/bin/python3
"""Matrices larger than the memory given: the same x as in memory, in every residency, at 1 to 4 ranks, and no more memory
than the plan says."""

import os
import sys

import h5py
import numpy as np

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)
from script_runs import MPIEXEC, PROGRAM, Checks, Folder, read_x, run, run_command, strict_json  # noqa: E402

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
    x = read_x("x.h5")
    with open("r.json", encoding="utf-8") as f:
        report = strict_json(f.read())
    os.remove("x.h5")
    # Passes of the refinement read A again where it does not stay in memory; that is said once.
    again = report["plan"]["residency"] == "file" and report["solver"]["method"] == "refine"
    said = "A does not stay in memory"
    told = sum(said in warning for warning in report["warnings"]), done.out.count("warning: " + said)
    checks.check(f"{name} at {ranks} ranks {options}: {'one warning' if again else 'no warning'} of passes that read A again",
                 told == (again, again), f"{told}\n{report['warnings']}\n{done}")
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


def warned_once_whatever_is_tried():
    run(["generate", "ill.h5", "--rows", 3000, "--cols", 8, "--kind", "illcond", "--cond", "1e9", "--dtype", "f8"])
    _, report = solve("ill.h5", 2, "--residency", "file", "--preconditioner", "sketch")
    expect(report is not None and any(warning.startswith("going on with") for warning in report["warnings"]),
           f"ill.h5: a second attempt {report}")


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


def shards_and_types_that_mislead():
    g = np.random.default_rng(5)
    a, b = g.standard_normal((2003, 7)), g.standard_normal(2003)

    def file(name, rows, rhs, dtype=None):
        with h5py.File(name, "w") as f:
            f["A"], f["b"] = rows, rhs
            if dtype is not None:
                f["A"].attrs["dtype"] = dtype

    def refused_with(files, *words):
        done = run(["solve", *files, "-o", "x.h5"], 2)
        code = 4 if "non-finite" in words else 3
        checks.check(f"{files} ends with {code} and {words}", done.code == code and all(w in done.err for w in words), done)

    # As many rows as entries of b in all, but not in each file: every entry after the first file's belongs to another row.
    file("o1.h5", a[:1000], np.append(b[:1000], 99.0))
    file("o2.h5", a[1000:], b[1000:-1])
    refused_with(["o1.h5", "o2.h5"], "o1.h5", "1000 rows", "1001")
    with_nan = a.copy()
    with_nan[1500, 3] = np.nan
    file("n1.h5", with_nan[:1000], b[:1000])
    file("n2.h5", with_nan[1000:], b[1000:])
    refused_with(["n1.h5", "n2.h5"], "non-finite", "row 1500, column 3", "row 500 of dataset /A in n2.h5")

    words = (a.astype("f4").view("u4") >> 16).astype("u2")
    rounded = (words.astype("u4") << 16).view("f4").astype("f8")
    best = np.linalg.lstsq(rounded, b, rcond=None)[0]
    for kind in ("u2", "i2"):
        file("bf.h5", words.view(kind), b, "bfloat16")
        x, _ = solve("bf.h5", 2)
        expect(x is not None and np.linalg.norm(x - best) < 1e-9 * np.linalg.norm(best), f"bfloat16 in {kind} is read as such")
    for said in ("bf16", "float16", 3):
        file("bad.h5", words, b, said)
        refused_with(["bad.h5"], "uint16", "attribute dtype", "bfloat16")
    file("int.h5", words, b, "uint16")
    best = np.linalg.lstsq(words.astype("f8"), b, rcond=None)[0]
    x, _ = solve("int.h5", 2)
    expect(x is not None and np.linalg.norm(x - best) < 1e-9 * np.linalg.norm(best), f"uint16 in u2 is read as such: {x} {best}")
    file("wide.h5", a, b, "bfloat16")
    refused_with(["wide.h5"], "attribute dtype says bfloat16")


with Folder() as folder:
    os.chdir(folder)
    no_more_memory_than_planned()
    same_x_in_less_memory()
    warned_once_whatever_is_tried()
    shards_and_types_that_mislead()
sys.exit(checks.finish())
