#!/usr/bin/python3
"""Compares refinement methods: passes over A and the backward error reached. Chose docs/decisions/0016-refinement.md.

Usage: refine_methods.py [--cond 1,1e3,1e6,1e9,1e11] [--residual 0,1e-3,1] [--oversample 2,4,8,12] [--rows 10000]
                         [--cols 100] [--seeds 3] [--tol 1e-15]
Every method sees A only through passes that give A^T (b - A x) and ||b - A x||^2, and keeps n-vectors. lsqr, the yardstick,
keeps the m-vectors that it needs. Sketch: SparseStack, zeta = 4, factored in FP32 below cond 1e6, in FP64 from there on.
Prints one JSON line a problem and method: passes, certificate at the end (sketched Karlson-Walden), and the true backward
error (Walden-Karlson-Sun, by SVD, residual in extended precision), both relative to ||A||_F; medians over the seeds, the
largest of the backward errors. Methods:
  fossils   heavy ball, two rounds                              (arXiv 2406.03468, algorithm FOSSILS)
  spir      CG, two rounds, started from dy = c                 (arXiv 2406.03468, algorithm SPIR)
  simple    CG until its own gradient meets the certificate, confirmed by a pass, started again from there if not met
  rounds    simple, but a round also ends where the rounding of its first gradient stands (src/refine.cpp)
  momentum  heavy ball on the true gradient of every pass: no rounds (iterative sketching with momentum)
  lsqr      preconditioned LSQR, one round, warm start
"""
import argparse
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import scipy.sparse
from scipy.linalg import qr, solve_triangular

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from least_squares import direct_solution, make_problem, true_backward_error  # noqa: E402  pylint: disable=C0413

EPS = np.finfo(float).eps
UNIT = EPS / 2
MAX_PASSES = 150
PATIENCE = 30  # passes without halving the certificate, of the methods without rounds


class Sketch:
    """R of the QR of S A, the warm start from S b, and what a certificate needs."""

    def __init__(self, a, b, d, dtype, rng, zeta=4):
        m, n = a.shape
        size = d // zeta
        rows = np.concatenate([block * size + rng.integers(0, size, m) for block in range(zeta)])
        signs = rng.choice([-1.0, 1.0], zeta * m) / np.sqrt(zeta)
        s = scipy.sparse.csr_matrix((signs, (rows, np.tile(np.arange(m), zeta))), shape=(d, m))
        triangle = qr((s @ np.c_[a, b]).astype(dtype), mode="r")[0].astype(float)
        self.d, self.n, self.r = d, n, triangle[:n, :n]
        self.start = solve_triangular(self.r, triangle[:n, n])
        self.b_norm = np.linalg.norm(triangle[:, n])
        _, self.sigma, self.vt = np.linalg.svd(self.r)
        self.frobenius = np.linalg.norm(self.sigma)
        # Rounding of A^T r, column by column u ||a_j|| ||r||, seen in the preconditioned norm: u growth ||r||.
        w = solve_triangular(self.r, np.eye(n))
        self.growth = np.linalg.norm(w * np.linalg.norm(self.r, axis=0)[:, None])

    def inverse(self, z):
        return solve_triangular(self.r, z)

    def inverse_transposed(self, g):
        return solve_triangular(self.r, g, trans="T")

    def scale(self, x):
        return np.hypot(self.b_norm / self.frobenius, np.linalg.norm(x))

    def bound(self, g, x, r_norm):
        """An upper bound of the certificate that needs no factorisation (src/certificate.h)."""
        scale = self.scale(x)
        sketched = np.linalg.norm(self.inverse_transposed(g))
        if sketched == 0:
            return 0.0
        return 1 / np.hypot(1 / sketched, r_norm / scale / np.linalg.norm(g)) / scale / self.frobenius

    def certificate(self, g, x, r_norm):
        scale = self.scale(x)
        return np.linalg.norm((self.vt @ g) / np.hypot(self.sigma, r_norm / scale)) / scale / self.frobenius


class Pass:
    def __init__(self, a, b):
        self.a, self.b, self.count = a, b, 0

    def gradient(self, x):
        self.count += 1
        r = self.b - self.a @ x
        return self.a.T @ r, np.linalg.norm(r)

    def product(self, p):
        self.count += 1
        ap = self.a @ p
        return self.a.T @ ap, ap @ ap


def two_rounds(problem, sketch, tol, inner):
    """The frame of FOSSILS and SPIR with the published stopping rules; later rounds until the certificate is met."""
    x = sketch.start
    best = np.inf
    while True:
        g, r_norm = problem.gradient(x)
        certificate = sketch.certificate(g, x, r_norm)
        if certificate <= tol or problem.count >= MAX_PASSES or certificate > best / 2:
            return x, certificate
        first = best == np.inf
        best = certificate
        floor = EPS * (sketch.sigma[0] * np.linalg.norm(x) + 0.04 * sketch.sigma[0] / sketch.sigma[-1] * r_norm)

        def done(update, residual):
            if first:
                return np.linalg.norm(update) <= floor
            return sketch.certificate(sketch.r.T @ residual, x, r_norm) <= tol / 2
        x = x + sketch.inverse(inner(problem, sketch, sketch.inverse_transposed(g), done))


def normal_operator(problem, sketch, z):
    return sketch.inverse_transposed(problem.product(sketch.inverse(z))[0])


def heavy_ball(problem, sketch, c, done):
    momentum = sketch.n / sketch.d
    dy, before = c, c
    while problem.count < MAX_PASSES:
        residual = c - normal_operator(problem, sketch, dy)
        update = (1 - momentum) ** 2 * residual + momentum * (dy - before)
        dy, before = dy + update, dy
        if done(update, residual):
            break
    return dy


def published_cg(problem, sketch, c, done):
    dy = c
    s = c - normal_operator(problem, sketch, dy)
    p = s
    while problem.count < MAX_PASSES:
        h = normal_operator(problem, sketch, p)
        step = (s @ s) / (p @ h)
        dy, s, old = dy + step * p, s - step * h, s
        if done(step * p, s):
            break
        p = s + (s @ s) / (old @ old) * p
    return dy


def cg_rounds(problem, sketch, tol, noise_rule=True):
    x, best_x = sketch.start, sketch.start
    best, failures = np.inf, 0
    while True:
        g, r_norm = problem.gradient(x)
        certificate = sketch.bound(g, x, r_norm)
        if certificate > tol and problem.count > 1:
            certificate = sketch.certificate(g, x, r_norm)
        failures = 0 if certificate <= best / 2 else failures + 1
        if certificate < best:
            best, best_x = certificate, x
        if best <= tol or failures == 2 or problem.count >= MAX_PASSES:
            return best_x, best
        s = sketch.inverse_transposed(g)
        floor = UNIT * sketch.growth * r_norm
        if np.linalg.norm(s) <= 10 * floor:
            floor = UNIT * sketch.growth * np.linalg.norm(s)
        p, dx = s, np.zeros_like(x)
        while problem.count < MAX_PASSES - 1:
            q = sketch.inverse(p)
            product, curvature = problem.product(q)
            step = s @ s / curvature
            dx, g = dx + step * q, g - step * product
            old, s = s, sketch.inverse_transposed(g)
            if sketch.bound(g, x + dx, r_norm) <= tol / 2 or (noise_rule and np.linalg.norm(s) <= floor):
                break
            p = s + (s @ s) / (old @ old) * p
        x = x + dx


def momentum_method(problem, sketch, tol):
    x, before = sketch.start, sketch.start
    best, best_x, since = np.inf, x, 0
    momentum = sketch.n / sketch.d
    while True:
        g, r_norm = problem.gradient(x)
        certificate = sketch.certificate(g, x, r_norm)
        since = since + 1
        if certificate < best / 2:
            since = 0
        if certificate < best:
            best, best_x = certificate, x
        if best <= tol or since == PATIENCE or problem.count >= MAX_PASSES:
            return best_x, best
        step = sketch.inverse(sketch.inverse_transposed(g))
        x, before = x + (1 - momentum) ** 2 * step + momentum * (x - before), x


def lsqr(problem, sketch, tol):
    """Paige and Saunders, on A R^-1 from the warm start; the passes of x's certificate are not counted."""
    a, x0 = problem.a, sketch.start
    problem.count += 1
    u = problem.b - a @ x0
    beta = np.linalg.norm(u)
    u = u / beta
    v = sketch.inverse_transposed(a.T @ u)
    alpha = np.linalg.norm(v)
    v = v / alpha
    w, z, phi_bar, rho_bar = v, np.zeros_like(v), beta, alpha
    best, best_x, since, passes = np.inf, x0, 0, 0
    while since < PATIENCE and problem.count < MAX_PASSES:
        problem.count += 1
        u = a @ sketch.inverse(v) - alpha * u
        beta = np.linalg.norm(u)
        u = u / beta
        v = sketch.inverse_transposed(a.T @ u) - beta * v
        alpha = np.linalg.norm(v)
        v = v / alpha
        rho = np.hypot(rho_bar, beta)
        z, phi_bar = z + rho_bar / rho * phi_bar / rho * w, beta / rho * phi_bar
        w, rho_bar = v - beta / rho * alpha / rho * w, -rho_bar / rho * alpha
        x = x0 + sketch.inverse(z)
        r = problem.b - a @ x
        certificate = sketch.certificate(a.T @ r, x, np.linalg.norm(r))
        since = 0 if certificate < best / 2 else since + 1
        if certificate < best:
            best, best_x, passes = certificate, x, problem.count
        if best <= tol:
            break
    problem.count = passes
    return best_x, best


METHODS = {
    "fossils": lambda problem, sketch, tol: two_rounds(problem, sketch, tol, heavy_ball),
    "spir": lambda problem, sketch, tol: two_rounds(problem, sketch, tol, published_cg),
    "simple": lambda problem, sketch, tol: cg_rounds(problem, sketch, tol, noise_rule=False),
    "rounds": cg_rounds,
    "momentum": momentum_method,
    "lsqr": lsqr,
}


def numbers(text):
    return [float(value) for value in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cond", type=numbers, default=[1, 1e3, 1e6, 1e9, 1e11])
    parser.add_argument("--residual", type=numbers, default=[0, 1e-3, 1])
    parser.add_argument("--oversample", type=numbers, default=[2, 4, 8, 12])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--cols", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-15)
    options = parser.parse_args()
    methods = options.methods.split(",")
    commit = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    for cond, residual, oversample in itertools.product(options.cond, options.residual, options.oversample):
        figures = {name: [] for name in methods}
        direct = []
        for seed in range(options.seeds):
            rng = np.random.default_rng(seed)
            a, b = make_problem("gaussian", options.rows, options.cols, cond, residual, rng)
            sketch = Sketch(a, b, int(oversample) * options.cols, np.float64 if cond >= 1e6 else np.float32, rng)
            direct.append(true_backward_error(a, b, direct_solution(a, b)))
            for name in methods:
                problem = Pass(a, b)
                x, certificate = METHODS[name](problem, sketch, options.tol)
                figures[name].append((problem.count, certificate, true_backward_error(a, b, x)))
        for name in methods:
            passes, certificates, errors = zip(*figures[name])
            print(json.dumps({"bench": "refine_methods", "commit": commit, "m": options.rows, "n": options.cols,
                              "cond": cond, "residual": residual, "oversample": oversample, "tol": options.tol,
                              "method": name,
                              "passes": float(np.median(passes)), "most_passes": max(passes),
                              "certificate": float(f"{max(certificates):.2e}"),
                              "backward_error": float(f"{max(errors):.2e}"),
                              "direct_backward_error": float(f"{max(direct):.2e}")}), flush=True)


if __name__ == "__main__":
    main()
