#!/usr/bin/python3
"""Data at the ends of what numbers hold, and sums as long as sketches meet: never a wrong x with exit 0.

Columns, A or b scaled by powers of ten down to 1e-200 and up to 1e306: products of a refinement pass would leave float64.
bfloat16 near 1e37 and 1e-37, where an FP32 sketch of it leaves its range.
Columns that depend on each other in millions of rows: the rounding of long sums must not hide it. Expected x: numpy, of the
unscaled problem. Seeds are fixed. Run by CTest as cli.extremes.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder  # noqa: E402  pylint: disable=C0413
from least_squares import direct_solution, solve, write_problem  # noqa: E402  pylint: disable=C0413

SEED = 700
M, N = 3000, 20
CLOSE = 1e-11  # relative; the problems have condition 2


def check_range(checks, folder):
    """x of scaled data is x of the plain data, scaled back, whatever preconditioner and ranks."""
    rng = np.random.default_rng(SEED)
    a, b = rng.standard_normal((M, N)), rng.standard_normal(M)
    plain = direct_solution(a, b)
    one_small, mixed = np.ones(N), np.ones(N)
    one_small[0], mixed[3], mixed[7] = 1e-200, 1e180, 1e-180
    cases = [("A and b 1e-170", 1e-170 * np.ones(N), 1e-170), ("A 1e-200, b 1e-130", 1e-200 * np.ones(N), 1e-130),
             ("a column 1e-200, b 1e-130", one_small, 1e-130), ("b 1e-200", np.ones(N), 1e-200),
             ("A 1e306", 1e306 * np.ones(N), 1.0), ("A 1e150, b 1e-150", 1e150 * np.ones(N), 1e-150),
             ("columns 1e180 and 1e-180", mixed, 1.0)]
    path = os.path.join(folder, "range.h5")
    for k, (name, of_a, of_b) in enumerate(cases):
        write_problem(path, a * of_a, b * of_b)
        for options in ([], ["--preconditioner", "sketch"], ["--oversample", 4]):
            solved = solve(path, options, 1 + k % 3)
            label = f"{name}, {' '.join(map(str, options))}"
            if not checks.check(f"{label}: exit 0, certified", solved.done.code == 0 and
                                solved.solver["reason"] == "certificate met", solved):
                continue
            x = solved.x.ravel() * of_a / of_b
            off = np.linalg.norm(x - plain) / np.linalg.norm(plain)
            checks.check(f"{label}: x off by {off:.1g}", off < CLOSE)
            residual = np.linalg.norm(b - a @ plain) * of_b
            checks.check(f"{label}: residual norm", abs(solved.solver["residual_norm"] / residual - 1) < 1e-9, solved)
    sizes = np.array([1, 1e-200, 1e100])
    write_problem(path, a, b[:, None] * sizes)
    solved = solve(path, ["--preconditioner", "sketch"])
    if checks.check("right-hand sides 1, 1e-200, 1e100: exit 0", solved.done.code == 0, solved):
        off = np.abs(solved.x / sizes - plain[:, None]).max()
        checks.check(f"right-hand sides 1, 1e-200, 1e100: x off by {off:.1g}", off < CLOSE)
    # A ridge with it: in units of the scaled column as in those of the others.
    write_problem(path, a * np.where(np.arange(N) == 5, 1e140, 1.0), b)
    solved = solve(path, ["--ridge", 3])
    stacked = direct_solution(np.r_[a * np.where(np.arange(N) == 5, 1e20, 1.0), np.sqrt(3) * np.eye(N)],
                              np.r_[b, np.zeros(N)])  # the ridge does not matter to so large a column
    if checks.check("a column 1e140, --ridge 3: exit 0", solved.done.code == 0, solved):
        x = solved.x.ravel() * np.where(np.arange(N) == 5, 1e120, 1.0)
        off = np.linalg.norm(x - stacked) / np.linalg.norm(stacked)
        checks.check(f"a column 1e140, --ridge 3: x off by {off:.1g}", off < CLOSE)


def check_bfloat16(checks, folder):
    """The words of A are scaled like float32: by a power of two, exactly, and the warning says so."""
    rng = np.random.default_rng(SEED + 2)
    values = np.ascontiguousarray(rng.standard_normal((M, N)), "<f4")
    mixed = np.where(np.arange(N) % 2 == 0, 2.0 ** 125, 2.0 ** -125)
    b = rng.standard_normal(M)
    path = os.path.join(folder, "bfloat16.h5")
    for name, scale in (("1e37", 2.0 ** 125 * np.ones(N)), ("1e-37", 2.0 ** -125 * np.ones(N)), ("both", mixed)):
        words = ((values * scale.astype("<f4")).view("<u4") >> 16).astype("<u2")
        a = (words.astype("<u4") << 16).view("<f4").astype("f8") / scale  # what is stored, but near 1
        plain = direct_solution(a, b)
        write_problem(path, words, b)
        with h5py.File(path, "r+") as file:
            file["A"].attrs["dtype"] = "bfloat16"
        for options in (["--preconditioner", "sketch"], []):
            solved = solve(path, options, 2)
            label = f"bfloat16 {name}, {' '.join(options)}"
            if not checks.check(f"{label}: exit 0, certified", solved.done.code == 0 and
                                solved.solver["reason"] == "certificate met", solved):
                continue
            off = np.linalg.norm(solved.x.ravel() * scale - plain) / np.linalg.norm(plain)
            checks.check(f"{label}: x off by {off:.1g}", off < 100 * CLOSE)  # b is all residual
            if options:
                checks.check(f"{label}: scaled", solved.report["precision"]["scaling"] == "auto" and
                             any("columns scaled" in warning for warning in solved.report["warnings"]), solved)


def check_long_sums(checks, folder):
    """Three million rows and three columns: the sketches have few rows, and every one is a sum of thousands."""
    rng = np.random.default_rng(SEED + 1)
    m = 3_000_000
    a = rng.standard_normal((m, 3))
    a[:, 2] = 0.3 * a[:, 0] + 0.7 * a[:, 1]
    b = a[:, 0] + rng.standard_normal(m)
    path = os.path.join(folder, "long.h5")
    write_problem(path, a, b)
    gram = a.T @ a
    least = np.linalg.pinv(gram, rcond=1e-10) @ (a.T @ b)
    for options in ([], ["--preconditioner", "sketch"], ["--sketch-rows", 64],
                    ["--method", "sketch-solve", "--sketch-rows", 64]):
        solved = solve(path, options, 2)
        checks.check(f"dependent in {m} rows, {' '.join(map(str, options))}: exit 5", solved.done.code == 5, solved)
    for options in ([], ["--oversample", 4]):
        solved = solve(path, ["--rank-deficient", "min-norm", *options])
        label = f"dependent in {m} rows, min-norm {' '.join(map(str, options))}"
        if checks.check(f"{label}: exit 0, rank 2", solved.done.code == 0 and solved.solver["rank"] == 2, solved):
            off = np.linalg.norm(solved.x.ravel() - least) / np.linalg.norm(least)
            checks.check(f"{label}: x off by {off:.1g}", off < 1e-9)
    # Nearly dependent: the condition, 1e10, must be seen, and x be as good as a direct solver's.
    a[:, 2] += 1e-10 * rng.standard_normal(m)
    write_problem(path, a, a @ [1, 2, 3.0])
    for options in (["--preconditioner", "sketch"], ["--sketch-rows", 64], []):
        solved = solve(path, options)
        label = f"nearly dependent in {m} rows, {' '.join(map(str, options))}"
        if checks.check(f"{label}: exit 0", solved.done.code == 0, solved):
            condition = solved.solver["condition_estimate"]
            checks.check(f"{label}: condition {condition:.1g}", 1e9 < condition < 1e12)
            off = np.abs(solved.x.ravel() - [1, 2, 3]).max()
            checks.check(f"{label}: x off by {off:.1g}", off < 3e-3)


def main():
    checks = Checks()
    print(f"data seed {SEED}")
    with Folder() as folder:
        check_range(checks, folder)
        check_bfloat16(checks, folder)
        check_long_sums(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
