#!/usr/bin/python3
"""Sketch files: what tallsketch sketch writes, what --merge adds, what solve --from-sketch makes of them.

Judged by numpy and h5py. Integer data, so that sketches of parts must add up exactly. Run by CTest as cli.sketch_files.
"""
import json
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, in_parallel, read_x, run, strict_json  # noqa: E402  pylint: disable=C0413

M, N, SEED = 3001, 9, 5
BORDERS = [0, 1000, 1003, 1500, M]  # a shard wider than tall among them


def write(path, a, b):
    """A file with /A and /b."""
    with h5py.File(path, "w") as file:
        file["A"], file["b"] = a, b


def read_sketch(path):
    """/SA, /b_squares and the identity of a sketch file."""
    with h5py.File(path, "r") as file:
        return file["SA"][()], file["b_squares"][()], json.loads(file["identity"][()])


def make_data(folder):
    """Integer rows in one file and in shards; a float64 problem with a residual."""
    generator = np.random.default_rng(SEED)
    a = generator.integers(-8, 9, (M, N)).astype("f4")
    b = generator.integers(-8, 9, M).astype("f4")
    write(os.path.join(folder, "all.h5"), a, b)
    for i, (begin, end) in enumerate(zip(BORDERS, BORDERS[1:])):
        write(os.path.join(folder, f"part{i}.h5"), a[begin:end], b[begin:end])
    wide = generator.standard_normal((4000, N))
    write(os.path.join(folder, "f8.h5"), wide, wide @ np.arange(1.0, N + 1) + generator.standard_normal(4000))
    return a, b


def check_file(checks, folder, a, b):
    """The file: shape, type, norms, identity, rows; the normal equations of S [A | b] give the x of a one-pass solve."""
    done = run(["sketch", "all.h5", "--report", "r.json"], cwd=folder)
    checks.check("sketch: exit 0", done.code == 0, done)
    sa, squares, identity = read_sketch(os.path.join(folder, "all.sketch.h5"))
    checks.check("sketch: d by n alone, float32", sa.shape == (2048, N + 1) and sa.dtype == np.float32, sa.shape)
    checks.check("sketch: integers", np.array_equal(sa, np.round(sa)))
    checks.check("sketch: ||b||^2", squares.tolist() == [float(np.sum(b.astype("f8") ** 2))], squares)
    # Of zeta = 4 entries +-1 in every column of S, without 1 / sqrt(4): 4 ||a||^2, as far as columns of A do not interfere.
    checks.check("sketch: unscaled", abs(np.sum(sa[:, :N].astype("f8") ** 2) / np.sum(a.astype("f8") ** 2) / 4 - 1) < 0.05)
    expected = {"format": "tallsketch sketch", "schema_version": 1, "family": "sparsestack", "hash": "permuted", "d": 2048,
                "check_rows": 64, "zeta": 4, "seed": 0, "precision": "fp32", "n": N, "r": 1, "dtype": "float32",
                "rows": [[0, M]], "exponents": [], "files": ["all.h5"]}
    checks.check("sketch: identity", all(identity.get(key) == value for key, value in expected.items()), identity)
    with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
        report = strict_json(file.read())
    checks.check("sketch: report", report["status"] == "sketched" and report["sketch"]["rows"] == [[0, M]] and
                 report["sketch"]["file"] == "all.sketch.h5" and report["problem"]["m"] == M, report)
    done = run(["solve", "--from-sketch", "all.sketch.h5", "--report", "x.json"], cwd=folder)
    checks.check("from sketch: exit 0, says what it cannot know", done.code == 0 and "A is not read" in done.out, done)
    x = read_x(os.path.join(folder, "all.sketch.x.h5"))
    # Rows 16, 48, ... are held back to judge x.
    used = np.ones(2048, bool)
    used[16::32] = False
    want = np.linalg.lstsq(sa[used, :N].astype("f8"), sa[used, N].astype("f8"), rcond=None)[0]
    checks.check("from sketch: x as numpy solves the used rows of /SA", np.allclose(x, want, rtol=1e-6, atol=1e-9), x - want)
    with open(os.path.join(folder, "x.json"), encoding="utf-8") as file:
        report = strict_json(file.read())
    checks.check("from sketch: report", report["solver"]["passes"] == 0 and report["solver"]["backward_error"] is None and
                 report["solver"]["residual_check"] is not None and report["sketch"]["file"] == "all.sketch.h5", report)
    done = run(["solve", "all.h5", "--method", "sketch-solve", "--sketch-rows", 1984, "--check-rows", 64, "-o", "one.h5"], cwd=folder)
    checks.check("from sketch: the x of the same sketch-solve, bit for bit", done.code == 0 and np.array_equal(
        x, read_x(os.path.join(folder, "one.h5"))), done)


def check_merge(checks, folder):
    """Shards sketched on 1 to 4 ranks, merged in several orders: the sketch of the whole, bit for bit."""
    parts = [f"part{i}.sketch.h5" for i in range(len(BORDERS) - 1)]

    def sketch(i):
        done = run(["sketch", f"part{i}.h5", "--first-row", BORDERS[i], "--chunk-rows", 97], ranks=i + 1, cwd=folder)
        checks.check(f"shard {i}: exit 0 on {i + 1} ranks", done.code == 0, done)

    in_parallel(sketch, range(len(parts)))
    whole, squares, _ = read_sketch(os.path.join(folder, "all.sketch.h5"))
    for name, order, ranks in (("a", [0, 1, 2, 3], 1), ("b", [3, 0, 2, 1], 3)):
        done = run(["sketch", "--merge", f"merged-{name}.h5", *[parts[i] for i in order]], ranks=ranks, cwd=folder)
        merged = read_sketch(os.path.join(folder, f"merged-{name}.h5"))
        checks.check(f"merge {name}: the whole, bit for bit", done.code == 0 and np.array_equal(merged[0], whole) and
                     np.array_equal(merged[1], squares) and merged[2]["rows"] == [[0, M]] and len(merged[2]["files"]) == 4, done)
    done = run(["sketch", "--merge", "holes.h5", parts[3], parts[0], "--report", "-"], cwd=folder)
    report = strict_json(done.out)
    checks.check("merge: rows with holes", done.code == 0 and report["sketch"]["rows"] == [[0, 1000], [1500, M]] and
                 report["status"] == "sketched", done)
    done = run(["solve", "--from-sketch", "holes.h5"], ranks=2, cwd=folder)
    checks.check("holes: solved alone, rows are said", done.code == 0 and "[0, 1000), [1500, 3001)" in done.out, done)
    with h5py.File(os.path.join(folder, "all.h5"), "r") as file:
        rows = np.r_[0:1000, 1500:M]
        best = np.linalg.lstsq(file["A"][()][rows].astype("f8"), file["b"][()][rows].astype("f8"), rcond=None)[0]
    x = read_x(os.path.join(folder, "holes.x.h5"))
    checks.check("holes: x near that of these rows", np.linalg.norm(x - best) < 0.1, x - best)


def check_refine(checks, folder):
    """solve FILE --from-sketch: the same x as without, one pass less where A is not kept."""
    for precision in ("fp32", "fp64"):
        run(["sketch", "f8.h5", "--precision", precision, "-o", f"{precision}.h5"], cwd=folder)
        done = run(["solve", "f8.h5", "--from-sketch", f"{precision}.h5", "-o", "from.x.h5", "--report", "-"], ranks=2, cwd=folder)
        report = strict_json(done.out)
        direct = run(["solve", "f8.h5", "-o", "direct.x.h5"], cwd=folder)
        x, same = (read_x(os.path.join(folder, f"{name}.x.h5")) for name in ("from", "direct"))
        checks.check(f"refine from {precision}: converged to the same x", done.code == 0 and direct.code == 0 and
                     report["solver"]["converged"] and np.allclose(x, same, rtol=1e-12), done)
        checks.check(f"refine from {precision}: no check rows, a certificate", report["sketch"]["precision"] == precision and
                     report["solver"]["backward_error"] < 1e-15 and report["solver"]["preconditioner"] == "sketch", done)
    # Where A is not kept, no row is read before the first pass of refinement.
    kept, streamed = (strict_json(run(["solve", "f8.h5", "--from-sketch", "fp32.h5", "--residency", residency, "--report", "-",
                                       "-o", f"{residency}.x.h5"], cwd=folder).out) for residency in ("host", "file"))
    checks.check("refine, A read for every pass: one pass less", kept["plan"]["residency"] == "host" and
                 streamed["plan"]["residency"] == "file" and streamed["solver"]["passes"] == kept["solver"]["passes"] - 1 and
                 streamed["io"]["bytes"] == streamed["solver"]["passes"] * 4000 * N * 8, (kept, streamed))
    # Values beyond FP32: columns scaled by powers of two, and the file says by which.
    with h5py.File(os.path.join(folder, "f8.h5"), "r") as file:
        a, b = file["A"][()], file["b"][()]
    scales = np.ones(N)
    scales[2], scales[5] = 2.0 ** -300, 2.0 ** 200
    write(os.path.join(folder, "far.h5"), a * scales, b)
    done = run(["sketch", "far.h5"], ranks=2, cwd=folder)
    exponents = read_sketch(os.path.join(folder, "far.sketch.h5"))[2]["exponents"]
    checks.check("far values: exponents", done.code == 0 and len(exponents) == N + 1 and exponents[2] > 250 and
                 exponents[5] < -150, done)
    near = read_x(os.path.join(folder, "from.x.h5")) / scales
    for method, tolerance in (("refine", 1e-12), ("sketch-solve", 0.1)):
        files = ["far.h5"] if method == "refine" else []
        done = run(["solve", *files, "--from-sketch", "far.sketch.h5", "--method", method, "-o", "far.x.h5"], cwd=folder)
        x = read_x(os.path.join(folder, "far.x.h5"))
        checks.check(f"far values: {method} gives x of the given columns", done.code == 0 and
                     np.allclose(x, near, rtol=tolerance), done)


def check_refusals(checks, folder):
    """Usage errors and bad files: code, words, nothing left behind. Which sketches differ, and how: unit.stored_sketch."""
    run(["sketch", "all.h5", "--seed", 7, "-o", "seed7.h5"], cwd=folder)
    run(["sketch", "part1.h5", "--first-row", 999, "-o", "overlap.h5"], cwd=folder)
    with open(os.path.join(folder, "all.sketch.h5"), "rb") as file:
        image = file.read()
    with open(os.path.join(folder, "text.h5"), "wb") as file:
        file.write(b"x" * 1000)
    at = image.index(np.array([3.0], "f4").tobytes())
    with open(os.path.join(folder, "flipped.h5"), "wb") as file:
        file.write(image[:at] + np.array([5.0], "f4").tobytes() + image[at + 4:])
    place = ["--sketch", "blockperm", "--input-blocks", "contiguous"]
    cases = [
        ("no FILE", 2, ["solve"], ["FILE"]),
        ("refine without FILE", 2, ["solve", "--from-sketch", "all.sketch.h5", "--method", "refine"], ["FILE", "--method"]),
        ("contradiction", 2, ["solve", "all.h5", "--from-sketch", "all.sketch.h5", "--zeta", 8], ["--zeta 8", "all.sketch.h5"]),
        ("contradiction without FILE", 2, ["solve", "--from-sketch", "all.sketch.h5", "--seed", 1], ["--seed 1"]),
        ("gram", 2, ["solve", "all.h5", "--from-sketch", "all.sketch.h5", "--preconditioner", "gram"], ["--preconditioner gram"]),
        ("other rows", 2, ["solve", "part0.h5", "--from-sketch", "all.sketch.h5"], ["[0, 3001)", "[0, 1000)"]),
        ("holes with FILE", 2, ["solve", "all.h5", "--from-sketch", "holes.h5"], ["[1500, 3001)"]),
        ("output is the sketch", 2, ["solve", "--from-sketch", "all.sketch.h5", "-o", "all.sketch.h5"], ["is an input"]),
        ("no sketch file", 3, ["solve", "--from-sketch", "all.h5"], ["all.h5", "no sketch file"]),
        ("missing", 3, ["solve", "--from-sketch", "none.h5"], ["none.h5"]),
        ("no HDF5", 3, ["sketch", "--merge", "m.h5", "text.h5"], ["text.h5"]),
        ("flipped", 3, ["sketch", "--merge", "m.h5", "flipped.h5"], ["flipped.h5", "checksum"]),
        ("overlap", 3, ["sketch", "--merge", "m.h5", "part0.sketch.h5", "overlap.h5"], ["row 999", "overlap.h5"]),
        ("merge into an input", 2, ["sketch", "--merge", "seed7.h5", "seed7.h5", "all.sketch.h5"], ["--merge 'seed7.h5'"]),
        ("merge with an option", 2, ["sketch", "--merge", "m.h5", "seed7.h5", "--zeta", 8], ["--zeta"]),
        ("merge with a row", 2, ["sketch", "--merge", "m.h5", "seed7.h5", "--first-row", 0], ["--first-row"]),
        ("merge and output", 2, ["sketch", "--merge", "m.h5", "seed7.h5", "-o", "o.h5"], ["--output 'o.h5'"]),
        ("contiguous without total", 2, ["sketch", "part1.h5", *place, "--first-row", 1000, "-o", "m.h5"], ["--total-rows"]),
        ("beyond total", 2, ["sketch", "part1.h5", "--first-row", 1000, "--total-rows", 1002, "-o", "m.h5"],
         ["[1000, 1003)", "1002"]),
        ("negative row", 2, ["sketch", "part1.h5", "--first-row", -1, "-o", "m.h5"], ["-1"]),
        ("unwritable", 9, ["sketch", "all.h5", "-o", "no/such/folder/s.h5"], ["no/such/folder"]),
        ("wide to solve", 2, ["solve", "part1.h5"], ["wide"]),
    ]

    def refuse(case):
        name, code, arguments, words = case
        ranks = 2 if name in ("flipped", "contradiction", "other rows", "missing", "unwritable") else 1
        done = run(arguments, ranks=ranks, cwd=folder)
        checks.check(f"{name}: exit {code}", done.code == code, done)
        checks.check(f"{name}: one message with {words}", all(word in done.err for word in words) and
                     done.err.count("tallsketch: error:") == 1, done)

    before = set(os.listdir(folder))
    in_parallel(refuse, cases)
    checks.check("refusals leave nothing", set(os.listdir(folder)) == before, set(os.listdir(folder)) - before)
    done = run(["sketch", "part1.h5", *place, "--first-row", 1000, "--total-rows", M, "-o", "ok.h5"], cwd=folder)
    checks.check("contiguous with total: exit 0", done.code == 0, done)


def main():
    checks = Checks()
    print(f"data seed {SEED}")
    with Folder() as folder:
        a, b = make_data(folder)
        check_file(checks, folder, a, b)
        for part in (check_merge, check_refine, check_refusals):
            part(checks, folder)
            print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
