#!/usr/bin/python3
"""Data attribution: per-example gradients sketched by `tallsketch sketch --transpose` keep the inner products that attribution uses, batch by
batch as well as at once, and a sketched ridge solve is the vector of attribution scores.

Run by CTest as cli.attribution. The features are those of data/gradient_features.py, of a network that it trains.
"""
import importlib
import json
import math
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import SOURCE, Checks, Folder, read_x, run, run_command, strict_json  # noqa: E402  pylint: disable=C0413

SCRIPT = os.path.join(SOURCE, "data", "gradient_features.py")
EXAMPLES, QUERIES, PARAMETERS = 240, 6, 24 * 40 + 40 + 40 * 16 + 16 + 16 * 4 + 4


def python(arguments, folder):
    """The script that makes and judges features."""
    return run_command([sys.executable, SCRIPT, *map(str, arguments)], cwd=folder)


def load_script():
    """The script as a module."""
    sys.path.insert(0, os.path.dirname(SCRIPT))
    return importlib.import_module("gradient_features")


def features_of(path):
    """(p, examples) and (p, queries), in FP64."""
    with h5py.File(path, "r") as file:
        return file["A"][()].astype("f8").T, file["b"][()].astype("f8").T


def sketch_of(path):
    """Phi^T, unscaled, and zeta."""
    with h5py.File(path, "r") as file:
        return file["SA"][()].astype("f8"), json.loads(file["identity"][()])["zeta"]


def check_gradients(checks, folder):
    """A feature is the gradient of its example's loss: of the last layer's bias it is probabilities minus the label's unit vector."""
    done = python(["f.h5", "--layers", "24,40,16,4", "--examples", EXAMPLES, "--queries", QUERIES], folder)
    checks.check("features: written", done.code == 0, done)
    a, b = features_of(os.path.join(folder, "f.h5"))
    checks.check("features: one column an example", a.shape == (PARAMETERS, EXAMPLES) and b.shape == (PARAMETERS, QUERIES), a.shape)
    # Every tenth slope of a small network in FP64 against central differences of its loss.
    maker, generator = load_script(), np.random.default_rng(3)
    weights = [[generator.standard_normal(shape) for shape in ((i, o), (o,))] for i, o in ((5, 7), (7, 6), (6, 3))]
    point, label = generator.standard_normal((1, 5)), np.array([1])
    found, at = maker.gradients(weights, point, label)[0], 0
    for part in (part for layer in weights for part in layer):
        for k in range(0, part.size, 10):
            losses = []
            for step in (1e-5, -1e-5):
                part.flat[k] += step
                logits = maker.forward(weights, point)[-1][0]
                losses.append(np.log(np.exp(logits).sum()) - logits[label[0]])
                part.flat[k] -= step
            slope = (losses[0] - losses[1]) / 2e-5
            checks.check(f"features: slope {at + k} is that of the loss", abs(found[at + k] - slope) < 1e-5 * (1 + abs(slope)),
                         (found[at + k], slope))
        at += part.size
    of_bias = a[-4:]
    checks.check("features: the last bias's gradient sums to 0 and has one negative part", np.allclose(of_bias.sum(axis=0), 0, atol=1e-6) and
                 np.all((of_bias < 0).sum(axis=0) == 1), of_bias[:, :3])
    with h5py.File(os.path.join(folder, "f.h5"), "r") as file:
        checks.check("features: of a network that has learnt something", 0.4 < file["A"].attrs["accuracy"] < 1, file["A"].attrs["accuracy"])
    done = python(["none/f.h5", "--layers", "3,2", "--examples", 2], folder)
    checks.check("features: no such folder is exit 9", done.code == 9 and "none" in done.err, done)
    done = python(["g.h5", "--layers", "3,0", "--examples", 2], folder)
    checks.check("features: a layer of width 0 is exit 2", done.code == 2 and "3,0" in done.err, done)


def check_products(checks, folder):
    """Inner products have the error of a Johnson-Lindenstrauss map, 1 / sqrt(d) of the lengths, and 4 d halve it."""
    rms = {}
    for name, options in (("sparsestack", ["--sketch-rows", 256]), ("sparsestack4", ["--sketch-rows", 1024]),
                          ("blockperm", ["--sketch", "blockperm", "--sketch-rows", 256, "--block-rows", 64])):
        done = run(["sketch", "f.h5", "--transpose", *options, "--check-rows", 0, "-o", f"{name}.h5", "--quiet"], cwd=folder)
        checks.check(f"{name}: sketched", done.code == 0, done)
        done = python(["f.h5", "--check", f"{name}.h5"], folder)
        figures = strict_json(done.out)
        rms[name] = figures["product_rms"]
        checks.check(f"{name}: shapes", figures["d"] == (1024 if name == "sparsestack4" else 256) and figures["p"] == PARAMETERS, figures)
        checks.check(f"{name}: products as exact as theory says", abs(rms[name] / figures["expected_rms"] - 1) < 0.15, figures)
        checks.check(f"{name}: the best matches are found, products and scores are alike", figures["best_shared"] > 0.5 and
                     figures["product_correlation"] > 0.9 and
                     figures["score_correlation"] > 0.7, figures)
        # The script's own arithmetic, done again from the two files.
        a, b = features_of(os.path.join(folder, "f.h5"))
        phi, zeta = sketch_of(os.path.join(folder, f"{name}.h5"))
        products = phi[:, :EXAMPLES].T @ phi[:, EXAMPLES:] / zeta
        lengths = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
        checks.check(f"{name}: the check counts right", math.isclose(np.sqrt(np.mean(((products - a.T @ b) / lengths) ** 2)), rms[name],
                                                                   rel_tol=1e-9), figures)
    checks.check("four times d halve the error", 1.6 < rms["sparsestack"] / rms["sparsestack4"] < 2.5, rms)


def check_bad_inputs(checks, folder):
    """--check: files that cannot be used are exit 3 and one line that names the file."""
    with h5py.File(os.path.join(folder, "sparsestack.h5"), "r") as file:
        sketched, identity = file["SA"][()], file["identity"][()]
    wrong = {"nosa": {"identity": identity}, "noidentity": {"SA": sketched}, "narrow": {"SA": sketched[:, :-1], "identity": identity},
             "short": {"SA": sketched[:-1], "identity": identity}, "flat": {"SA": sketched[0], "identity": identity},
             "notjson": {"SA": sketched, "identity": "{"}, "words": {"SA": np.array([[1, 2]]), "identity": identity}}
    for name, parts in wrong.items():
        with h5py.File(os.path.join(folder, name), "w") as file:
            for key, value in parts.items():
                file[key] = value
    with open(os.path.join(folder, "text"), "w", encoding="ascii") as file:
        file.write("no HDF5")
    cases = [("f.h5", name, name) for name in (*wrong, "text", "none.h5")] + [("none.h5", "sparsestack.h5", "none.h5"),
                                                                           ("nosa", "sparsestack.h5", "nosa")]
    for features, phi, word in cases:
        done = python([features, "--check", phi], folder)
        checks.check(f"--check {features} {phi}: exit 3, one line", done.code == 3 and len(done.err.splitlines()) == 1 and
                     f"{word}: " in done.err and not done.out, done)


def check_batches(checks, folder):
    """S depends on the feature's row alone: a batch of examples sketched by itself, or on three ranks, gives its columns of the whole."""
    whole, _ = sketch_of(os.path.join(folder, "sparsestack.h5"))
    with h5py.File(os.path.join(folder, "f.h5"), "r") as file, h5py.File(os.path.join(folder, "batch.h5"), "w") as batch:
        batch["A"], batch["b"] = file["A"][100:150], file["b"][:1]
    for ranks in (1, 3):
        done = run(["sketch", "batch.h5", "--transpose", "--sketch-rows", 256, "--check-rows", 0, "-o", "batch.s.h5", "--quiet"], ranks=ranks,
                   cwd=folder)
        part, _ = sketch_of(os.path.join(folder, "batch.s.h5"))
        checks.check(f"batch on {ranks} ranks: the columns of the whole", done.code == 0 and np.allclose(
            part[:, :50], whole[:, 100:150], rtol=1e-5, atol=1e-6), done)


def check_scores(checks, folder):
    """argmin ||S A x - S b||^2 + lambda ||x||^2 is tau = (Phi^T Phi + lambda I)^-1 Phi^T phi, for every query."""
    phi, zeta = sketch_of(os.path.join(folder, "sparsestack4.h5"))
    phi /= math.sqrt(zeta)
    gram = phi[:, :EXAMPLES].T @ phi[:, :EXAMPLES]
    ridge = 0.1 * np.trace(gram) / EXAMPLES
    expected = np.linalg.solve(gram + ridge * np.eye(EXAMPLES), phi[:, :EXAMPLES].T @ phi[:, EXAMPLES:])
    done = run(["solve", "--from-sketch", "sparsestack4.h5", "--method", "sketch-solve", "--ridge", repr(float(ridge)), "-o", "tau.h5", "--quiet"],
               cwd=folder)
    checks.check("scores: solved", done.code == 0, done)
    tau = read_x(os.path.join(folder, "tau.h5"))
    checks.check("scores: those of the formula", tau.shape == expected.shape and np.allclose(tau, expected, rtol=1e-4, atol=1e-5 *
                                                                                            np.abs(expected).max()), tau[:3] - expected[:3])


def main():
    """All."""
    checks = Checks()
    with Folder() as folder:
        for check in (check_gradients, check_products, check_bad_inputs, check_batches, check_scores):
            check(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
