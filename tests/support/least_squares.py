"""Least-squares problems with known properties, and how good an x is, by numpy in float64 and extended precision.

Used by tests/cli/accuracy*.py and tests/bench. What is measured here shares nothing with tallsketch.
"""
import itertools
import os

import h5py
import numpy as np
from scipy.linalg import solve_triangular

from script_runs import run, strict_json


def true_backward_error(a, b, x):
    """min ||[dA, theta db]||_F / ||A||_F over the problems that x solves, theta = ||A||_F / ||b||.

    Source: Walden, Karlson and Sun 1995; Higham, Accuracy and Stability, section 20.7. [A, eta (I - r r^+)] is taken in
    the basis of range([A, r]); in the complement its singular values are eta. Resolution: a few u.
    """
    frobenius = np.linalg.norm(a)
    r = (b.astype(np.longdouble) - a.astype(np.longdouble) @ x.astype(np.longdouble)).astype(float)
    r_norm = np.linalg.norm(r)
    if r_norm == 0:
        return 0.0
    eta = r_norm / np.hypot(np.linalg.norm(x), np.linalg.norm(b) / frobenius)
    # A in the basis [r, rest of range([A, r])]: its first row must be exact to see orthogonality below u.
    unit = r / r_norm
    row = ((a.T.astype(np.longdouble) @ r.astype(np.longdouble)) / r_norm).astype(float)
    rest = np.linalg.qr(a - np.outer(unit, row), mode="r")
    n = a.shape[1]
    matrix = np.block([[row[None, :], np.zeros((1, n))], [rest, eta * np.eye(n)]])
    return min(eta, np.linalg.svd(matrix, compute_uv=False)[-1]) / frobenius


def direct_solution(a, b):
    q, r = np.linalg.qr(a)
    return solve_triangular(r, q.T @ b)


def column_scales(a):
    """Powers of two that bring the columns' norms near 1; 1 for a column of zeros."""
    norms = np.linalg.norm(a / np.abs(a).max(axis=0, initial=1e-300), axis=0) * np.abs(a).max(axis=0, initial=1e-300)
    return 2.0 ** -np.round(np.log2(np.where(norms > 1e-290, norms, 1)))


def scaled_backward_error(a, b, x):
    """The true backward error of the column-scaled problem."""
    scale = column_scales(a)
    return true_backward_error(a * scale, b, x / scale)


def forward_bound(a, b, x, backward_error):
    """How far an x of this backward error may be from the solution, relatively, columns scaled (Higham, th. 20.1)."""
    scale = column_scales(a)
    scaled, y = a * scale, x / scale
    sigma = np.linalg.svd(scaled, compute_uv=False)
    kappa, residual = sigma[0] / sigma[-1], np.linalg.norm(b - a @ x)
    eta = backward_error * np.linalg.norm(scaled) / sigma[0]
    length = np.linalg.norm(y)
    return kappa * eta * (2 + (kappa + 1) * (residual / (sigma[0] * length) if length > 0 else 0))


def difference(a, x, reference):
    """||D^-1 (x - reference)|| relative to the reference, D the column scales of a."""
    scale = column_scales(a)
    return np.linalg.norm((x - reference) / scale) / np.linalg.norm(reference / scale)


def orthonormal_basis(kind, m, n, rng):
    """gaussian: all rows alike; heavy: n + 5 rows carry nearly all; head: the first n rows are nearly I."""
    rows = rng.standard_normal((m, n))
    if kind == "heavy":
        rows[rng.choice(m, n + 5, replace=False)] *= 1e4
    elif kind == "head":
        rows *= 1e-3 / np.sqrt(m)
        rows[:n] += np.eye(n)
    return np.linalg.qr(rows)[0]


def make_problem(kind, m, n, cond, residual, rng):
    """A with singular values 1 ... 1 / cond, b = A x + residual e; x and e of length 1, e orthogonal to the range of A.

    The solution stays short that way: with an arbitrary e, x grows with cond and every method is backward stable.
    """
    u = orthonormal_basis(kind, m, n, rng)
    v = np.linalg.qr(rng.standard_normal((n, n)))[0]
    e = rng.standard_normal(m)
    for _ in range(2):
        e -= u @ (u.T @ e)
    x = rng.standard_normal(n)
    a = (u * np.logspace(0, -np.log10(cond), n)) @ v.T
    return a, a @ (x / np.linalg.norm(x)) + residual * e / np.linalg.norm(e)


class Solved:
    """A finished solve: done (the run), report, x and errors (standard errors) if they were written."""

    def __init__(self, done, report, x, errors):
        self.done, self.report, self.x, self.errors = done, report, x, errors
        self.solver = report["solver"] if report else None

    def __str__(self):
        return f"{self.solver}\n{self.done}"


def write_problem(path, a, b):
    with h5py.File(path, "w") as file:
        file["A"], file["b"] = a, b


RUN_NUMBERS = itertools.count()


def solve(path, options=(), ranks=1):
    """Solves a file; what is written stands beside it, under a name of its own for every call."""
    stem = f"{os.path.splitext(path)[0]}.{next(RUN_NUMBERS)}"
    done = run(["solve", path, "-o", stem + ".x.h5", "--report", stem + ".json", *options], ranks=ranks)
    report = x = errors = None
    if os.path.exists(stem + ".json"):
        with open(stem + ".json", encoding="utf-8") as file:
            report = strict_json(file.read())
    if os.path.exists(stem + ".x.h5"):
        with h5py.File(stem + ".x.h5", "r") as file:
            x = file["x"][()]
            errors = file["standard_errors"][()] if "standard_errors" in file else None
    return Solved(done, report, x, errors)
