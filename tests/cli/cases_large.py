#!/usr/bin/python3
"""Files and reads beyond 2 GB: C-01 and C-02, and the time that float16 takes (C-04). Opt-in: TALLSKETCH_LARGE=1.

Needs 5 GB of disk in the folder of temporary files and 4 GB of memory. The same rows, in one file by writes of more than 2 GB and in
five of less, have to be equal, and to have the same x whichever way they are read. Run by CTest as cli.cases_large.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import script_runs  # noqa: E402  pylint: disable=C0413
from least_squares import solve  # noqa: E402  pylint: disable=C0413
from script_runs import Checks, Folder, run, strict_json  # noqa: E402  pylint: disable=C0413

M, N, SHARDS = 9_000_000, 64, 5
BYTES = M * N * 4
BLOCK = 100_000  # rows compared at a time


def check_large(checks, folder):
    """C-02: what was written is what was made; C-01: all of it is read, in one read or many, and solved."""
    whole, part = os.path.join(folder, "whole.h5"), os.path.join(folder, "part.h5")
    problem = ["--rows", M, "--cols", N, "--seed", 1]
    for name, options in ((whole, ["--chunk-rows", M]), (part, ["--shards", SHARDS])):
        done = run(["generate", name, *problem, *options, "--quiet"])
        checks.check(f"C-02: generate {options}", done.code == 0, done)
    parts = [part.replace(".h5", f".{k:03}.h5") for k in range(SHARDS)]
    equal, row = os.path.getsize(whole) > BYTES > 2**31, 0
    with h5py.File(whole, "r") as file:
        for name in parts:
            with h5py.File(name, "r") as shard:
                for begin in range(0, len(shard["A"]), BLOCK):
                    rows = shard["A"][begin:begin + BLOCK]
                    equal = equal and np.array_equal(rows, file["A"][row:row + len(rows)]) and rows.any(axis=1).all()
                    equal = equal and np.array_equal(shard["b"][begin:begin + BLOCK], file["b"][row:row + len(rows)])
                    row += len(rows)
    checks.check("C-02: one file of 2.3 GB has the rows of five of less", equal and row == M, row)

    one_pass = ["--method", "sketch-solve", "--chunk-rows", M, "--memory", "8GiB"]
    done = run(["solve", *parts, "-o", os.path.join(folder, "parts.x.h5"), "--quiet", *one_pass])
    checks.check("C-01: five files: solved", done.code == 0, done)
    expected = script_runs.read_x(os.path.join(folder, "parts.x.h5"))
    for way in ("direct", "mpio"):
        solved = solve(whole, [*one_pass, "--io", way])
        if checks.check(f"C-01: one rank, --io {way}: solved", solved.done.code == 0, solved):
            checks.check(f"C-01: --io {way}: read whole, in one chunk", solved.report["io"]["bytes"] >= BYTES and
                         solved.report["plan"]["chunk_rows"] == M, solved.report["io"])
            checks.check(f"C-01: --io {way}: x of the five files, bit for bit", solved.x.tobytes() == expected.tobytes(),
                         (solved.x, expected))
    for name in (whole, *parts):
        os.remove(name)


def check_half(checks, folder):
    """C-04: reading float16 takes no longer than reading float32 of the same shape, which has twice the bytes."""
    seconds = {}
    for dtype in ("f4", "f2"):
        path = os.path.join(folder, dtype + ".h5")
        done = run(["generate", path, "--rows", 2_000_000, "--cols", N, "--dtype", dtype, "--quiet"])
        checks.check(f"C-04: generate {dtype}", done.code == 0, done)
        done = run(["bench", "io", path, "--repeats", 5, "--backend", "host", "--quiet"])
        if not checks.check(f"C-04: bench {dtype}", done.code == 0, done):
            return
        line = strict_json(done.out)
        seconds[dtype] = [line["gb"] / line[rate] for rate in ("read_gb_per_s", "stream_gb_per_s")]
    # Other work on this machine must not fail the test, so twice is allowed; the whole way has the conversion on one core.
    for k, (what, most) in enumerate((("reading", 2), ("reading and sketching", 4))):
        ratio = seconds["f2"][k] / seconds["f4"][k]
        print(f"C-04: {what}: float16 {seconds['f2'][k]:.3f} s, float32 {seconds['f4'][k]:.3f} s, ratio {ratio:.2f}")
        checks.check(f"C-04: {what}, which took 16 times as long elsewhere", ratio < most, seconds)


def main():
    if os.environ.get("TALLSKETCH_LARGE") != "1":
        print("skipped: 5 GB of files and minutes of time; TALLSKETCH_LARGE=1 runs it")
        return 77
    script_runs.LIMIT_SECONDS = 600
    checks = Checks()
    with Folder() as folder:
        check_large(checks, folder)
        check_half(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
