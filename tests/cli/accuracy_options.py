#!/usr/bin/python3
"""Edges, ridge, standard errors, minimum norm, preconditioners and reduced solvers, one pass: each against numpy.

Comparisons of x: within what a backward error of the certificate's size can move it (tests/support/least_squares.py).
Seeds are fixed. Run by CTest as cli.accuracy_options.
"""
import itertools
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, in_parallel  # noqa: E402  pylint: disable=C0413
from least_squares import (column_scales, difference, direct_solution,  # noqa: E402  pylint: disable=C0413
                           forward_bound, make_problem, scaled_backward_error, solve, write_problem)

SEED = 500
M, N = 2003, 20
TOLERANCE = 6e-15  # of the true backward error: the certificate's 1e-15, and what it may be off
ONE_PASS = ["--method", "sketch-solve"]
GRAM, SKETCHED = ["--preconditioner", "gram"], ["--preconditioner", "sketch"]
MIN_NORM = ["--rank-deficient", "min-norm"]


def close(checks, name, a, b, x, expected, backward_error=TOLERANCE):
    """x, (n) or (n, r), is expected, but for what the tolerance allows."""
    columns = [(x, b, expected)] if x.ndim == 1 else list(zip(x.T, b.T, expected.T))
    for k, (mine, rhs, reference) in enumerate(columns):
        if not reference.any():
            checks.check(f"{name}: x {k} is 0", not mine.any(), mine)
            continue
        bound, off = forward_bound(a, rhs, reference, backward_error), difference(a, mine, reference)
        checks.check(f"{name}: x {k} off by {off:.2g}", off <= bound, (off, bound))


def solved_and_met(checks, name, solved, tolerance=1e-15):
    return checks.check(f"{name}: exit 0", solved.done.code == 0, solved) and checks.check(
        f"{name}: certified", solved.solver["reason"] == "certificate met" and
        solved.solver["backward_error"] <= tolerance, solved)


def warned(solved, words):
    return any(words in warning for warning in solved.report["warnings"])


def check_edges(checks, folder):
    """Shapes and right-hand sides at the ends of what is allowed."""
    rng = np.random.default_rng(SEED)
    a, b = make_problem("gaussian", M, N, 100, 0.3, rng)
    square, noise = rng.standard_normal((25, 25)) + 8 * np.eye(25), rng.standard_normal(M)
    thin = noise[:, None] + 1
    whole = rng.integers(-9, 10, (M, N)).astype(float)
    cases = {"n = 1": (thin, b), "n = 1, m = 1": (thin[:1], b[:1]), "n = 1, m = 2": (thin[:2], b[:2]),
             "m = n": (square, rng.standard_normal(25)), "m = n + 1": (np.r_[square, square[:1] + 1], noise[:26]),
             "b = 0": (a, np.zeros(M)), "b exactly in the range": (whole, whole @ np.arange(-9.0, 11)),
             "b nearly in the range": (a, a @ np.ones(N)),
             "b orthogonal to the range": (a, b - a @ direct_solution(a, b)),
             "r = 3": (a, np.c_[b, noise, a @ np.ones(N)]),
             "r = 3, one b = 0": (a, np.c_[b, np.zeros(M), 1e20 * noise])}

    def one(job):
        (label, (matrix, rhs)), ranks, options = job
        path = os.path.join(folder, f"edge.{label}.{ranks}.{options[-1:]}.h5")
        write_problem(path, matrix, rhs)
        solved = solve(path, options, ranks)
        name = f"edge: {label}, {ranks} ranks {' '.join(options)}"
        if not solved_and_met(checks, name, solved):
            return
        if label == "b orthogonal to the range":
            error = scaled_backward_error(matrix, rhs, solved.x)
            checks.check(f"{name}: backward error {error:.2g}", error <= TOLERANCE, error)
            return
        expected = direct_solution(matrix, rhs) if rhs.any() else np.zeros(N)
        checks.check(f"{name}: shape of x", solved.x.shape == expected.shape, solved.x.shape)
        if label == "r = 3, one b = 0":
            expected[:, 1] = 0
        close(checks, name, matrix, rhs, solved.x, expected)

    in_parallel(one, [(case, 1 + (k + extra) % 4, options) for k, case in enumerate(cases.items())
                      for extra, options in enumerate(([], SKETCHED))])


def check_dependent(checks, folder):
    """Zero, repeated and combined columns: exit 5 and their names; least norm if asked for; solvable with a ridge."""
    rng = np.random.default_rng(SEED + 1)
    base, b = make_problem("gaussian", M, N, 10, 0.5, rng)
    base = base * 2.0 ** rng.integers(-3, 4, N)  # the least norm is that of x, not of the scaled columns
    zero, twice, combined = base.copy(), base.copy(), base.copy()
    zero[:, [4, 11]] = 0
    twice[:, 9] = twice[:, 2]
    combined[:, 15] = combined[:, 3] - 2 * combined[:, 7]
    cases = {"zero": (zero, "columns 4, 11 ", 2), "twice": (twice, "column 9 ", 1),
             "combined": (combined, "column 15 ", 1),
             "all three": (np.c_[zero[:, :6], twice, combined], "", None),
             # Their null space must not be that of an FP32 sketch.
             "zero, float32": (zero.astype("f4"), "columns 4, 11 ", 2),
             "twice, float32": (twice.astype("f4"), "column 9 ", 1)}

    def one(job):
        k, ((label, (a, words, lost)), options) = job
        ranks, n = 1 + k % 4, a.shape[1]
        path = os.path.join(folder, f"dependent.{k}.h5")
        write_problem(path, a, b)
        # The condition of what is left is about 100 with columns as they are, and a residual of half of b squares it.
        tolerance, limit = (1e-12, 1e-9) if a.dtype == "f4" else (1e-15, 1e-11)
        a = a.astype("f8")
        rank = np.linalg.matrix_rank(a * column_scales(a))
        name = f"dependent: {label}, {' '.join(options)}, {ranks} ranks"
        refused = solve(path, options, ranks)
        checks.check(f"{name}: exit 5, columns named", refused.done.code == 5 and words in refused.done.err and
                     f"rank {rank} of {n}" in refused.done.err and refused.x is None, refused)
        checks.check(f"{name}: the test's own rank", lost is None or rank == n - lost, rank)
        if "--preconditioner" in options or not options:
            solved = solve(path, [*options, *MIN_NORM], ranks)
            if solved_and_met(checks, f"{name}, min-norm", solved, tolerance):
                expected = np.linalg.pinv(a, rcond=1e-12) @ b
                off = np.linalg.norm(solved.x - expected) / np.linalg.norm(expected)
                checks.check(f"{name}: x of least norm, off by {off:.2g}", off < limit and
                             solved.solver["rank"] == rank, solved)
                checks.check(f"{name}: told", warned(solved, "least norm"), solved)
                dead = np.flatnonzero(~a.any(axis=0))
                checks.check(f"{name}: exactly 0 for columns of zeros", not solved.x[dead].any(), solved.x)
        ridge = 1e-2
        solved = solve(path, [*options, "--ridge", ridge], ranks)
        if not checks.check(f"{name}: a ridge solves it", solved.done.code == 0, solved):
            return
        stacked, rhs = np.r_[a, np.sqrt(ridge) * np.eye(n)], np.r_[b, np.zeros(n)]
        if ONE_PASS[1] not in options:
            close(checks, f"{name}, ridge", stacked, rhs, solved.x, direct_solution(stacked, rhs), 6 * tolerance)

    in_parallel(one, list(enumerate(itertools.product(cases.items(), ([], SKETCHED, ONE_PASS)))))
    path = os.path.join(folder, "nothing.h5")
    for dtype in ("f4", "f8"):
        write_problem(path, np.zeros((300, 3), dtype), b[:300])
        for options in ([], SKETCHED, ONE_PASS):
            solved = solve(path, [*options, *MIN_NORM], 2)
            checks.check(f"A = 0, {dtype}, {' '.join(options)}: x = 0", solved.done.code == 0 and
                         solved.solver["rank"] == 0 and not solved.x.any() and "nan" not in solved.done.out, solved)


def check_ridge(checks, folder):
    """lambda 1e-6, 1, 1e6 against numpy on the rows [A; sqrt(lambda) I], also where columns differ much in size."""
    rng = np.random.default_rng(SEED + 2)
    plain, b = make_problem("heavy", M, N, 1e3, 0.3, rng)
    plain *= 30
    cases = {"plain": plain, "uneven": plain * 10.0 ** rng.uniform(-4, 4, N)}

    def one(job):
        k, ((label, a), ridge, options) = job
        ranks = 1 + k % 4
        path = os.path.join(folder, f"ridge.{k}.h5")
        write_problem(path, a, np.c_[b, b[::-1]])
        stacked, rhs = np.r_[a, np.sqrt(ridge) * np.eye(N)], np.r_[np.c_[b, b[::-1]], np.zeros((N, 2))]
        solved = solve(path, [*options, "--ridge", ridge], ranks)
        name = f"ridge {ridge} {label}, {' '.join(options)}, {ranks} ranks"
        if not checks.check(f"{name}: exit 0, in the report", solved.done.code == 0 and
                            solved.solver["ridge"] == ridge, solved):
            return
        expected = direct_solution(stacked, rhs)
        if options == ONE_PASS:
            least, mine = (np.linalg.norm(stacked @ x - rhs) for x in (expected, solved.x))
            estimate = solved.solver["residual_excess_estimate"]
            # Twice the expected excess: its deviation with n = 20, d - n = 44 is below a half of it; FP32 on top.
            checks.check(f"{name}: within its excess", -1e-9 <= mine / least - 1 <= 2 * estimate + 1e-4,
                         (mine, least, estimate))
            return
        checks.check(f"{name}: certified", solved.solver["reason"] == "certificate met", solved)
        close(checks, name, stacked, rhs, solved.x, expected)

    in_parallel(one, list(enumerate(itertools.product(cases.items(), (1e-6, 1, 1e6), (GRAM, SKETCHED, ONE_PASS)))))


def check_standard_errors(checks, folder):
    """s sqrt(diag((A^T A)^-1)): exactly by the Gram matrix, within 15 % by a sketch of 16 n rows."""
    rng = np.random.default_rng(SEED + 3)
    a, b = make_problem("gaussian", M, N, 1e3, 0.7, rng)
    a *= 10.0 ** rng.uniform(-6, 6, N)
    b = np.c_[b, rng.standard_normal(M)]
    scale = column_scales(a)
    residual = np.linalg.norm(b - a @ direct_solution(a, b), axis=0)
    inverse = np.linalg.inv(np.linalg.qr(a * scale, mode="r"))
    expected = np.outer(scale * np.linalg.norm(inverse, axis=1), residual / np.sqrt(M - N))
    sketched = [*SKETCHED, "--oversample", 16]
    jobs = [(options, r, 1 + (k + r) % 4, limit) for r in (1, 2) for k, (options, limit) in enumerate(
        (([], 1e-6), (GRAM, 1e-6), (sketched, 0.15), ([*sketched, "--reduced-solver", "svd"], 0.15)))]
    for r in (1, 2):
        write_problem(os.path.join(folder, f"errors.{r}.h5"), a, b[:, 0] if r == 1 else b)

    def one(job):
        options, r, ranks, limit = job
        solved = solve(os.path.join(folder, f"errors.{r}.h5"), [*options, "--standard-errors"], ranks)
        name = f"standard errors, r = {r}, {' '.join(map(str, options))}, {ranks} ranks"
        if not solved_and_met(checks, name, solved):
            return
        textbook = expected[:, 0] if r == 1 else expected
        if checks.check(f"{name}: written, of the shape of x", solved.errors is not None and
                        solved.errors.shape == solved.x.shape, solved.errors):
            off = np.abs(solved.errors / textbook - 1).max()
            checks.check(f"{name}: the textbook's, off by {off:.2g}", off < limit, off)

    in_parallel(one, jobs)


def check_routes(checks, folder):
    """Every preconditioner and reduced solver gives the same x; the Gram matrix gives way where it cannot resolve A."""
    rng = np.random.default_rng(SEED + 4)
    easy, hard = make_problem("gaussian", M, N, 1e3, 0.3, rng), make_problem("gaussian", M, N, 1e9, 0.3, rng)
    for name, (a, b) in (("easy", easy), ("hard", hard)):
        write_problem(os.path.join(folder, f"route.{name}.h5"), a, b)
    routes = [[*SKETCHED, "--reduced-solver", word] for word in ("auto", "qr", "cholesky", "svd")]
    routes += [GRAM, [*GRAM, "--reduced-solver", "cholesky"], ["--reduced-solver", "svd"], []]
    more = (["--sketch", "blockperm"], ["--precision", "fp64"], ["--zeta", 8])
    routes += [[*SKETCHED, *options] for options in more]

    def one(job):
        k, ((name, (a, b)), options) = job
        ranks = 1 + k % 4
        solved = solve(os.path.join(folder, f"route.{name}.h5"), options, ranks)
        label = f"route: {name}, {' '.join(map(str, options))}, {ranks} ranks"
        if not solved_and_met(checks, label, solved):
            return
        close(checks, label, a, b, solved.x, direct_solution(a, b))
        asked = options[options.index("--reduced-solver") + 1] if "--reduced-solver" in options else "auto"
        told = (solved.solver["preconditioner"], solved.solver["reduced_solver"])
        if name == "easy":
            gram = options in (GRAM, [*GRAM, "--reduced-solver", "cholesky"])
            checks.check(f"{label}: what was asked for was used", (not gram or told == ("gram", "cholesky")) and
                         asked in ("auto", told[1]) and solved.report["sketch"]["used"] == (told[0] == "sketch"),
                         solved)
        else:
            checks.check(f"{label}: ends with an fp64 sketch, with a warning", told[0] == "sketch" and
                         solved.report["sketch"]["precision"] == "fp64" and
                         warned(solved, "going on with an fp64 sketch") != ("fp64" in options), solved)

    in_parallel(one, list(enumerate(itertools.product((("easy", easy), ("hard", hard)), routes))))


def check_one_pass(checks, folder):
    """sketch-solve measures its residual by rows that x has not seen: right in the mean, and a misfit is told."""
    rng = np.random.default_rng(SEED + 5)
    m, n, seeds = 20000, 64, range(10)
    a, b = rng.standard_normal((m, n)), rng.standard_normal(m) + 1
    path = os.path.join(folder, "pass.h5")
    write_problem(path, a.astype("f4"), b.astype("f4"))
    least = np.linalg.norm(a @ direct_solution(a, b) - b)

    def one(seed):
        solved = solve(path, [*ONE_PASS, "--seed", seed], 1 + seed % 4)
        name = f"one pass: seed {seed}"
        if not checks.check(f"{name}: exit 0, told in the log", solved.done.code == 0 and
                            "residual by 64 sketch rows that x has not seen" in solved.done.out, solved):
            return np.nan, np.nan
        true = np.linalg.norm(a @ solved.x - b)
        checks.check(f"{name}: no warning of a misfit", not warned(solved, "fits A badly"), solved)
        return solved.solver["residual_check"] / true - 1, solved.solver["residual_excess_check"] - (true / least - 1)

    for word, off in zip(("residual", "excess"), np.array(in_parallel(one, seeds)).T):
        error = off.std(ddof=1) / np.sqrt(len(off))
        print(f"one pass: measured {word} off by {off.mean():+.3f} in the mean of {len(off)} seeds, "
              f"standard error {error:.3f}")
        checks.check(f"one pass: the measured {word} brackets the true one", abs(off.mean()) < 4 * error, off)
        # 64 squares of normal numbers: 9 %; the excess also has the deviation of the least residual's estimate.
        checks.check(f"one pass: deviation of the measured {word}", off.std(ddof=1) < 0.25, off)

    # With one nonzero a column, coordinate rows either reach the rows that x is made from or those it is judged by.
    head = np.r_[np.eye(n), 1e-4 * rng.standard_normal((3000, n))]
    path = os.path.join(folder, "coordinate.h5")
    write_problem(path, head, rng.standard_normal(len(head)))
    for seed in range(4):
        solved = solve(path, [*ONE_PASS, "--zeta", 1, "--seed", seed], 1 + seed)
        if checks.check(f"misfit: seed {seed}: exit 0", solved.done.code == 0, solved):
            checks.check(f"misfit: seed {seed}: told", warned(solved, "fits A badly"), solved)


def main():
    checks = Checks()
    print(f"data seeds from {SEED}, sketch seed 0, for one pass 0 to 9")
    with Folder() as folder:
        for part in (check_edges, check_dependent, check_ridge, check_standard_errors, check_routes, check_one_pass):
            part(checks, folder)
            print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
