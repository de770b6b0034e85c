#!/usr/bin/python3
"""The default solve against scipy.linalg.lstsq: backward errors over families, scalings, changes that x must follow.

Families: condition 1 to 1e9, rows alike or a few that carry most of A, residuals from 0 to large, on 1 to 4 ranks.
Checked of each: exit 0, the certificate met, the true normwise backward error (tests/support/least_squares.py) within
what the certificate may be off and within 10 times lstsq's, 30 passes at most. Comparisons of x: within what such a
backward error can move it. Seeds are fixed. Options, edges and one pass: cli/accuracy_options.py.
Run by CTest as cli.accuracy.
"""
import itertools
import os
import sys

import numpy as np
import scipy.linalg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, in_parallel  # noqa: E402  pylint: disable=C0413
from least_squares import (difference, direct_solution, forward_bound,  # noqa: E402  pylint: disable=C0413
                           make_problem, scaled_backward_error, solve, write_problem)

SEED = 100
M, N = 2003, 30
TOLERANCE = {"f8": 1e-15, "f4": 1e-12}  # of the certificate, by the type of A
# The certificate is within sqrt(2) times the distortion of a sketch that refinement accepts (4 at most) of the truth.
CERTIFICATE_SLACK = 6
UNIT_ROUNDOFF = 2.0 ** -53
SKETCHED = ["--preconditioner", "sketch"]


def certified(checks, name, solved, dtype="f8"):
    """Exit 0 and a certificate; False otherwise."""
    if not checks.check(f"{name}: exit 0", solved.done.code == 0, solved):
        return False
    solver = solved.solver
    return checks.check(f"{name}: certified in 30 passes", (solver["method"], solver["converged"], solver["reason"]) ==
                        ("refine", True, "certificate met") and 0 <= solver["backward_error"] <= TOLERANCE[dtype] and
                        solver["passes"] <= 30 and solver["rank"] == solved.x.shape[0], solved)


def check_families(checks, folder):
    cases = [(kind, cond, residual, dtype, [])
             for dtype, kind, cond, residual in itertools.product(("f8", "f4"), ("gaussian", "heavy", "head"),
                                                                  (1, 1e3, 1e6, 1e9), (0, 1e-3, 1))
             if dtype == "f8" or cond <= 1e3]
    cases += [(kind, cond, 1e-3, "f8", SKETCHED) for kind, cond in itertools.product(("gaussian", "heavy", "head"),
                                                                                     (1, 1e3, 1e6, 1e9))]

    def one(job):
        k, (kind, cond, residual, dtype, options) = job
        ranks = 1 + k % 4
        rng = np.random.default_rng(SEED + k)
        a, b = (part.astype(dtype) for part in make_problem(kind, M, N, cond, residual, rng))
        path = os.path.join(folder, f"family.{k}.h5")
        write_problem(path, a, b)
        solved = solve(path, options, ranks)
        name = f"{kind} rows, cond {cond:.0e}, residual {residual}, {dtype} {' '.join(options)}, {ranks} ranks"
        if not certified(checks, name, solved, dtype):
            return None
        rival = scipy.linalg.lstsq(a, b)[0].astype("f8")  # in the type of A
        a, b = a.astype("f8"), b.astype("f8")
        error, error_of_rival = scaled_backward_error(a, b, solved.x), scaled_backward_error(a, b, rival)
        checks.check(f"{name}: true backward error {error:.2g}", error <= CERTIFICATE_SLACK * TOLERANCE[dtype] and
                     error <= CERTIFICATE_SLACK * max(solved.solver["backward_error"], 2 * UNIT_ROUNDOFF), solved)
        # Below u, the rounding of A itself, lstsq's is luck.
        checks.check(f"{name}: backward error {error:.2g} within 10 x {error_of_rival:.2g} of lstsq",
                     error <= 10 * max(error_of_rival, UNIT_ROUNDOFF), solved)
        best = np.linalg.norm(a @ direct_solution(a, b) - b)
        checks.check(f"{name}: residual_norm of the report", abs(solved.solver["residual_norm"] - best) <=
                     1e-9 * best + 1e-13 * np.linalg.norm(b), (solved.solver, best))
        return error, error_of_rival, solved.solver["passes"]

    figures = [figure for figure in in_parallel(one, list(enumerate(cases))) if figure]
    errors, of_rival, passes = map(np.array, zip(*figures))
    ratios = errors / of_rival
    print(f"{len(figures)} families: worst backward error {errors.max():.2g}, "
          f"against lstsq's at most {ratios.max():.2g} x, median {np.median(ratios):.2g} x; "
          f"{passes.min()} to {passes.max()} passes")


def check_scaling(checks, folder):
    """A, b and single columns times 1e30 and 1e-30: x follows."""
    a, b = make_problem("heavy", M, N, 1e2, 0.5, np.random.default_rng(SEED))
    column = np.ones(N)
    column[[3, 17]] = 1e30, 1e-30
    cases = {"A 1e30": (1e30, 1), "A 1e-30": (1e-30, 1), "b 1e30": (1, 1e30), "b 1e-30": (1, 1e-30),
             "A 1e-30, b 1e30": (1e-30, 1e30), "columns": (column, 1), "columns, A 1e100": (1e100 * column, 1)}

    def one(job):
        k, ((label, (of_a, of_b)), (dtype, options)) = job
        ranks = 1 + k % 4
        if dtype == "f4" and "e100" in label:
            return
        scaled_a, scaled_b = (a * of_a).astype(dtype), (b * of_b).astype(dtype)
        path = os.path.join(folder, f"scaling.{k}.h5")
        write_problem(path, scaled_a, scaled_b)
        solved = solve(path, options, ranks)
        name = f"scaled: {label}, {dtype} {' '.join(options)}, {ranks} ranks"
        if not certified(checks, name, solved, dtype):
            return
        # What was scaled is rounded: back to the plain size, the same numbers but for that.
        plain_a, plain_b = scaled_a.astype("f8") / of_a, scaled_b.astype("f8") / of_b
        expected = direct_solution(plain_a, plain_b)
        bound = forward_bound(plain_a, plain_b, expected, CERTIFICATE_SLACK * TOLERANCE[dtype])
        off = difference(plain_a, solved.x * of_a / of_b, expected)
        checks.check(f"{name}: x follows, off by {off:.2g}", off <= bound, (off, bound, solved.solver))

    in_parallel(one, list(enumerate(itertools.product(cases.items(), (("f8", []), ("f8", SKETCHED), ("f4", []))))))


def check_metamorphic(checks, folder):
    """Changes of the problem that x must follow in a known way."""
    rng = np.random.default_rng(SEED + 1)
    a, b = make_problem("gaussian", M, N, 1e3, 0.1, rng)
    order = rng.permutation(M)
    unit = np.zeros(N)
    unit[5] = 1
    mixing = np.linalg.qr(rng.standard_normal((N, N)))[0] + 2 * np.eye(N)
    swapped = np.eye(N)[rng.permutation(N)]
    same = lambda x: x  # noqa: E731
    cases = {"as it is": (a, b, same), "rows permuted": (a[order], b[order], same),
             "zero rows appended": (np.r_[a, np.zeros((777, N))], np.r_[b, np.zeros(777)], same),
             "zero rows between": (np.kron(a, [[1], [0]]), np.kron(b, [1, 0]), same),
             "rows twice": (np.r_[a, a], np.r_[b, b], same),
             "each row twice": (np.repeat(a, 2, 0), np.repeat(b, 2), same),
             "rows negated": (-a, -b, same), "b negated": (a, -b, lambda x: -x),
             "a column added to b": (a, b + a @ unit, lambda x: x + unit),
             "A times b's solution subtracted": (a, b - a @ direct_solution(a, b), lambda x: x * 0),
             "columns permuted": (a @ swapped, b, lambda x: swapped.T @ x),
             "columns mixed": (a @ mixing, b, lambda x: np.linalg.solve(mixing, x))}
    plain = direct_solution(a, b)
    bound = forward_bound(a, b, plain, CERTIFICATE_SLACK * TOLERANCE["f8"])
    for k, (matrix, rhs, _) in enumerate(cases.values()):
        write_problem(os.path.join(folder, f"changed.{k}.h5"), matrix, rhs)

    def one(job):
        (k, (label, (matrix, _, change))), (ranks, options) = job
        solved = solve(os.path.join(folder, f"changed.{k}.h5"), options, ranks)
        name = f"changed: {label}, {ranks} ranks {' '.join(options)}"
        if not certified(checks, name, solved):
            return
        expected = change(plain)
        scale = np.linalg.norm(expected) if expected.any() else np.linalg.norm(plain)
        off = np.linalg.norm(solved.x - expected) / scale
        # Mixing the columns changes the condition by mixing's own, below 10.
        limit = bound * (100 if label == "columns mixed" else 2)
        checks.check(f"{name}: x follows, off by {off:.2g}", off <= limit, (off, limit, matrix.shape))

    runs = [(job, (1 + job[0] % 4, SKETCHED if job[0] % 3 == 0 else [])) for job in enumerate(cases.items())]
    plainly = (0, ("as it is", cases["as it is"]))
    runs += [(plainly, (ranks, options)) for ranks in (1, 2, 3, 4) for options in ([], SKETCHED)]
    in_parallel(one, runs)


def main():
    checks = Checks()
    print(f"data seeds from {SEED}, sketch seed 0")
    with Folder() as folder:
        for part in (check_families, check_scaling, check_metamorphic):
            part(checks, folder)
            print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
