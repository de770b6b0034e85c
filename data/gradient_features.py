#!/usr/bin/python3
"""Per-example gradients of a small network, as data attribution uses them (TRAK, GraSS), and what a sketch makes of them.

/A  (examples, p) float32, stored with an example in a row, so read it with --transpose: A is (p, examples), a column is the
                  gradient of the loss of one training example by all p weights and biases
/b  (queries, p)  float32: the same for examples that the network was not trained on
Attributes of /A: layers, accuracy (on the queries' distribution), seed. The network is a ReLU multilayer perceptron with
softmax and cross-entropy, trained by Adam on made-up classes (Gaussian clouds that overlap). With the default layers
it is of the size that paper B (FlashSketch, E.2) takes from GraSS: 109 386 parameters. The same command makes the same data.

--check PHI.h5, made by `tallsketch sketch FEATURES.h5 --transpose -o PHI.h5`, compares inner products of sketched features with the
true ones, and the attribution scores tau = (Phi^T Phi + lambda I)^-1 Phi^T phi of both; JSON on standard output.
Exit: 0 | 2 usage | 3 FEATURES.h5 or PHI.h5 of --check cannot be used | 9 output not written, nothing left behind.
"""
import argparse
import json
import math
import sys

import h5py
import numpy as np

import support


def clouds(generator, layers, count, centres):
    """`count` points of the classes, and their labels."""
    labels = generator.integers(0, layers[-1], count)
    return (centres[labels] + generator.standard_normal((count, layers[0]))).astype(np.float32), labels


def forward(weights, points):
    """Activations of every layer, the logits last."""
    activations = [points]
    for k, (matrix, bias) in enumerate(weights):
        linear = activations[-1] @ matrix + bias
        activations.append(linear if k == len(weights) - 1 else np.maximum(linear, 0))
    return activations


def signals(weights, activations, labels):
    """d loss / d (linear output), of every layer and example: (count, width)."""
    shifted = activations[-1] - activations[-1].max(axis=1, keepdims=True)
    delta = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    delta[np.arange(len(labels)), labels] -= 1
    found = [delta]
    for k in range(len(weights) - 1, 0, -1):
        delta = (delta @ weights[k][0].T) * (activations[k] > 0)
        found.insert(0, delta)
    return found


def gradients(weights, points, labels):
    """(count, p): the gradient of each example's own loss, matrices row-major, each before its bias."""
    activations = forward(weights, points)
    parts = []
    for inputs, delta in zip(activations, signals(weights, activations, labels)):
        parts += [np.einsum("ni,nj->nij", inputs, delta).reshape(len(labels), -1), delta]
    return np.concatenate(parts, axis=1).astype(np.float32)


def train(generator, layers, points, labels, epochs):
    """Adam, batches of 32."""
    weights = [[generator.standard_normal((a, b)).astype(np.float32) * np.float32(math.sqrt(2 / a)), np.zeros(b, np.float32)]
               for a, b in zip(layers, layers[1:])]
    first = [[np.zeros_like(part) for part in layer] for layer in weights]
    second = [[np.zeros_like(part) for part in layer] for layer in weights]
    step = 0
    for _ in range(epochs):
        order = generator.permutation(len(labels))
        for begin in range(0, len(labels), 32):
            batch = order[begin:begin + 32]
            activations = forward(weights, points[batch])
            step += 1
            for k, delta in enumerate(signals(weights, activations, labels[batch])):
                slopes = (activations[k].T @ delta / len(batch), delta.mean(axis=0))
                for i, slope in enumerate(slopes):
                    first[k][i] = 0.9 * first[k][i] + 0.1 * slope
                    second[k][i] = 0.999 * second[k][i] + 0.001 * slope ** 2
                    weights[k][i] = weights[k][i] - np.float32(3e-3) * (first[k][i] / (1 - 0.9 ** step)) / (
                        np.sqrt(second[k][i] / (1 - 0.999 ** step)) + 1e-8)
    return weights


def make(arguments):
    """Trains and writes."""
    layers = [support.count(text) for text in arguments.layers.split(",")]
    generator = np.random.default_rng(arguments.seed)
    # Centres some 5.7 standard deviations apart: a thousand points of 784 numbers do not tell the classes apart for sure.
    centres = generator.standard_normal((layers[-1], layers[0])) * 4 / math.sqrt(layers[0])
    points, labels = clouds(generator, layers, arguments.examples, centres)
    queries, answers = clouds(generator, layers, arguments.queries, centres)
    weights = train(generator, layers, points, labels, arguments.epochs)
    test, truth = clouds(generator, layers, 2000, centres)
    accuracy = float(np.mean(forward(weights, test)[-1].argmax(axis=1) == truth))
    with support.whole_file(arguments.output) as file:
        parameters = sum(a * b + b for a, b in zip(layers, layers[1:]))
        stored = file.create_dataset("A", (arguments.examples, parameters), "f4")
        for begin in range(0, arguments.examples, 256):
            part = slice(begin, begin + 256)
            stored[part] = gradients(weights, points[part], labels[part])
        file["b"] = gradients(weights, queries, answers)
        stored.attrs.update(layers=layers, accuracy=accuracy, seed=arguments.seed)
    print(f"{arguments.output}: {arguments.examples} x {parameters} features of training examples, {arguments.queries} of queries; "
          f"the network answers {100 * accuracy:.1f} % right")


def scores(gram, products, ridge):
    """tau of every training example (rows) for every query."""
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), products)


class InputError(Exception):
    """What is wrong with a file that is read, in one line."""


def matrix(file, path, name):
    """A dataset of two dimensions, in FP64."""
    stored = file.get(name)
    if not isinstance(stored, h5py.Dataset) or stored.ndim != 2 or stored.dtype.kind != "f":
        raise InputError(f"{path}: no matrix of floating-point numbers /{name}")
    return stored[()].astype("f8")


def read_features(path):
    """(examples, p) and (queries, p)."""
    try:
        with h5py.File(path, "r") as file:
            examples, queries = matrix(file, path, "A"), matrix(file, path, "b")
    except OSError as error:
        raise InputError(f"{path}: {error}") from error
    if examples.shape[1] != queries.shape[1]:
        raise InputError(f"{path}: /A has {examples.shape[1]} numbers an example, /b {queries.shape[1]} a query")
    return examples, queries


def read_sketch(path, columns):
    """S [A | b], (d, columns), and the sketch's identity."""
    try:
        with h5py.File(path, "r") as file:
            sketched = matrix(file, path, "SA")
            identity = json.loads(file["identity"][()])
            d, zeta = identity["d"], identity["zeta"]
            identity["family"]  # pylint: disable=pointless-statement
    except OSError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: no /identity of a sketch with family, d and zeta: {error}") from error
    if sketched.shape != (d, columns) or zeta < 1:
        raise InputError(f"{path}: /SA is {sketched.shape[0]} x {sketched.shape[1]} where d = {d} rows and a column for each of the "
                         f"{columns} examples and queries belong; sketch the same features")
    return sketched, identity


def check(arguments):
    """Compares the sketched features with the true ones."""
    examples, queries = read_features(arguments.output)
    sketched, identity = read_sketch(arguments.check, len(examples) + len(queries))
    sketched /= math.sqrt(identity["zeta"])
    phi, phi_of_queries = sketched[:, :len(examples)].T, sketched[:, len(examples):].T
    lengths = np.outer(np.linalg.norm(examples, axis=1), np.linalg.norm(queries, axis=1))
    true, approximate = examples @ queries.T, phi @ phi_of_queries.T
    deviations = (approximate - true) / lengths
    gram = examples @ examples.T
    ridge = arguments.ridge * np.trace(gram) / len(gram)
    tau, tau_of_sketch = scores(gram, true, ridge), scores(phi @ phi.T, approximate, ridge)
    correlation = [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(tau.T, tau_of_sketch.T)]
    best = max(1, len(examples) // 50)
    shared = [len(np.intersect1d(np.argsort(-a)[:best], np.argsort(-b)[:best])) / best for a, b in zip(true.T, approximate.T)]
    figures = {"d": identity["d"], "family": identity["family"], "zeta": identity["zeta"], "p": examples.shape[1],
               "examples": len(examples), "queries": len(queries),
               "product_rms": float(np.sqrt(np.mean(deviations ** 2))), "product_largest": float(np.abs(deviations).max()),
               "expected_rms": float(np.sqrt(np.mean(1 + (true / lengths) ** 2) / identity["d"])),
               "norm_rms": float(np.sqrt(np.mean((np.sum(phi ** 2, axis=1) / np.diag(gram) - 1) ** 2))),
               "product_correlation": float(np.median([np.corrcoef(a, b)[0, 1] for a, b in zip(true.T, approximate.T)])),
               "ridge": ridge, "score_correlation": float(np.median(correlation)), "best_shared": float(np.mean(shared))}
    print(json.dumps(figures))


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="FEATURES.h5")
    parser.add_argument("--layers", default="784,128,64,10", help="widths, inputs first (default: %(default)s)")
    parser.add_argument("--examples", type=support.count, default=1000, help="of training (default: %(default)s)")
    parser.add_argument("--queries", type=support.count, default=16, help="(default: %(default)s)")
    parser.add_argument("--epochs", type=support.count, default=10, help="of training (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", metavar="PHI.h5", help="compare with the sketch of FEATURES.h5 instead of writing it")
    parser.add_argument("--ridge", type=float, default=0.1,
                        help="lambda of the scores, times the mean squared length of a feature (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            check(arguments)
        else:
            make(arguments)
    except argparse.ArgumentTypeError as error:
        parser.error(f"--layers {arguments.layers}: {error}")
    except InputError as error:
        print(f"gradient_features.py: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"gradient_features.py: {error}", file=sys.stderr)
        return 9
    return 0


if __name__ == "__main__":
    sys.exit(main())
