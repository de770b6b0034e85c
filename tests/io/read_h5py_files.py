#!/usr/bin/python3
"""Files that h5py writes, in every stored form, give the x of the plain float32 file, bit for bit.

Data are small integers that float16 holds, so that every sketch is exact: x must not depend on the stored type, byte
order, layout, chunking, file split or number of ranks. Beside that x must solve the sketched problem as well as one pass
promises, judged by numpy.lstsq in float64. Run by CTest as io.read_h5py_files.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, in_parallel, run, strict_json  # noqa: E402  pylint: disable=C0413

SEED = 20240229
M, N = 2003, 7
RANKS = (1, 2, 3, 5)


def matrix(m, n):
    """M[i, j] = (7 i + 3 j) mod 1000: integers below 1000, exact in float16 (cases file)."""
    i, j = np.ogrid[0:m, 0:n]
    return ((7 * i + 3 * j) % 1000).astype(np.float64)


def write(path, **datasets):
    """datasets: name = value, or name = (value, keywords of create_dataset)."""
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            data, keywords = value if isinstance(value, tuple) else (value, {})
            file.create_dataset(name, data=data, **keywords)


class Reading:
    """One stored form: the arguments that name it, and the rank counts and chunkings to read it with."""

    def __init__(self, name, arguments, group, ranks=RANKS, chunk_rows=(0,)):
        self.name, self.arguments, self.group, self.ranks, self.chunk_rows = name, arguments, group, ranks, chunk_rows


def compact(path, a, b):
    """A and b inside the object header (at most 64 kB), by h5py's low-level interface."""
    with h5py.File(path, "w") as file:
        for name, data in (("A", a), ("b", b)):
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_layout(h5py.h5d.COMPACT)
            dataset = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(data.dtype),
                                      h5py.h5s.create_simple(data.shape), plist)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)


def make_files(folder):
    """Writes all files; returns the readings and, by group, (A, b) in float64."""
    rng = np.random.default_rng(SEED)
    a = matrix(M, N)
    b = rng.integers(-500, 500, M).astype(np.float64)
    b3 = rng.integers(-500, 500, (M, 3)).astype(np.float64)
    tiny_a, tiny_b = matrix(90, 3) % 64, rng.integers(-9, 9, 90).astype(np.float64)
    one_a, one_b = (matrix(501, 1)[:, 0] % 97) + 1, rng.integers(-50, 50, 501).astype(np.float64)
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    groups = {"main": (a, b), "r3": (a, b3), "tiny": (tiny_a, tiny_b), "n1": (one_a[:, None], one_b)}
    f4, f8 = np.float32, np.float64

    # The first reading of each group is the reference.
    write(at("plain.h5"), A=a.astype(f4), b=b.astype(f4))
    readings = [Reading("contiguous float32", [at("plain.h5")], "main", chunk_rows=(0, 1, 7, 513))]
    for dtype in ("<f8", ">f8", "<f2", ">f2", ">f4"):
        name = f"type_{dtype[1:]}_{'big' if dtype[0] == '>' else 'little'}.h5"
        write(at(name), A=a.astype(dtype), b=b.astype(dtype))
        readings.append(Reading(f"A and b {dtype}", [at(name)], "main", chunk_rows=(0, 100)))
    write(at("mixed.h5"), A=a.astype("<f2"), b=b.astype(">f8"))
    readings.append(Reading("A float16, b float64 big-endian", [at("mixed.h5")], "main"))
    for name, keywords in (("chunks_64x7", {"chunks": (64, 7)}), ("chunks_100x3", {"chunks": (100, 3)}),
                           ("one_chunk", {"chunks": (M, N)}), ("row_chunks", {"chunks": (1, 7)})):
        write(at(name + ".h5"), A=(a.astype(f4), keywords), b=(b.astype(f4), {"chunks": (64,)}))
        readings.append(Reading(name, [at(name + ".h5")], "main", chunk_rows=(0, 50)))
    packed = {"compression": "gzip", "shuffle": True, "chunks": (64, 7)}  # C-03
    for dtype in ("<f4", ">f8", "<f2"):
        name = f"gzip_{dtype[1:]}.h5"
        write(at(name), A=(a.astype(dtype), packed), b=(b.astype(f4), {**packed, "chunks": (64,)}))
        readings.append(Reading(f"gzip+shuffle {dtype}", [at(name)], "main", chunk_rows=(0, 100)))
    write(at("checked.h5"), A=(a.astype(f4), {"fletcher32": True, "chunks": (500, 7)}), b=b.astype(f4))
    readings.append(Reading("fletcher32", [at("checked.h5")], "main"))
    write(at("grows.h5"), A=(a.astype(f4), {"maxshape": (None, N), "chunks": (128, 7)}), b=b.astype(f4))
    readings.append(Reading("extendible", [at("grows.h5")], "main"))

    write(at("column_b.h5"), A=a.astype(f4), b=b.astype(f4)[:, None])
    readings.append(Reading("b (m, 1)", [at("column_b.h5")], "main"))
    write(at("b_alone.h5"), rhs=b.astype(f8))
    write(at("named.h5"), **{"group/matrix": a.astype(f4), "A": a.astype(f4)[::-1], "b": b.astype(f4)})
    readings += [
        Reading("b in its own file", [at("plain.h5"), "--b", at("b_alone.h5") + ":/rhs"], "main"),
        Reading("FILE:/name", [at("named.h5") + ":/group/matrix"], "main"),
        Reading("--a /name", [at("named.h5"), "--a", "/group/matrix"], "main", ranks=(2,)),
        Reading("--a name without slash", [at("named.h5"), "--a", "group/matrix"], "main", ranks=(1,)),
    ]
    # Row shards of unequal length, one of one row, one of none; in different layouts.
    cuts = [0, 1, 700, 700, 1500, M]
    shards = []
    for k, (begin, end) in enumerate(zip(cuts, cuts[1:])):
        shards.append(at(f"shard.{k}.h5"))
        keywords = {"chunks": (64, 7), "compression": "gzip"} if k == 3 else {}
        write(shards[-1], A=(a.astype(f4)[begin:end], keywords), b=b.astype(f4 if k else f8)[begin:end])
    readings += [
        Reading("five row shards", shards, "main", chunk_rows=(0, 99)),
        Reading("shards, b in one file", [*shards, "--b", at("b_alone.h5") + ":/rhs"], "main"),
    ]
    with h5py.File(at("soft.h5"), "w") as file:
        file["A"] = h5py.SoftLink("/deep/inside/A")
        file["b"] = b
        file.create_dataset("deep/inside/A", data=a.astype(f4))
    readings.append(Reading("soft link inside the file", [at("soft.h5")], "main", ranks=(2,)))
    with h5py.File(at("user_block.h5"), "w", userblock_size=512, libver="latest") as file:
        file["A"], file["b"] = a.astype(f4), b.astype(f4)
    readings.append(Reading("user block and newest format", [at("user_block.h5")], "main", ranks=(1, 3)))

    write(at("r3.h5"), A=a.astype(f4), b=b3.astype(f4))
    write(at("r3_chunked.h5"), A=(a.astype("<f2"), packed), b=(b3.astype(">f8"), {"chunks": (100, 2)}))
    readings += [Reading("b (m, 3)", [at("r3.h5")], "r3"), Reading("b (m, 3) chunked", [at("r3_chunked.h5")], "r3")]
    write(at("tiny.h5"), A=tiny_a.astype(f4), b=tiny_b.astype(f4))
    compact(at("compact.h5"), tiny_a.astype(f4), tiny_b.astype(f8))
    readings += [Reading("tiny", [at("tiny.h5")], "tiny"), Reading("compact", [at("compact.h5")], "tiny")]
    # C-07, C-17: fewer rows than ranks, so that some read nothing; contiguous and in chunks.
    few_a, few_b = np.array([[3.0, 1], [1, 2], [0, 5]]), np.array([1.0, -2, 4])
    groups["few rows"] = (few_a, few_b)
    write(at("few.h5"), A=few_a.astype(f4), b=few_b.astype(f4))
    write(at("few_gzip.h5"), A=(few_a.astype(f4), {"compression": "gzip", "chunks": (1, 2)}), b=few_b.astype(f4))
    readings += [Reading("3 rows", [at("few.h5")], "few rows", chunk_rows=(0, 1)),
                 Reading("3 rows, gzip", [at("few_gzip.h5")], "few rows")]
    write(at("vector_a.h5"), A=one_a.astype(f4), b=one_b.astype(f4))
    write(at("column_a.h5"), A=one_a.astype("<f2")[:, None], b=one_b.astype(f4)[:, None])
    readings += [Reading("A (m)", [at("vector_a.h5")], "n1"), Reading("A (m, 1), b (m, 1)", [at("column_a.h5")], "n1")]
    return readings, groups


def sketch_and_solve_bound(n, d):
    """How far above the least residual one pass may end.

    The squared excess of a Gaussian sketch is 1 + n / (d - n) F with F = F(n, d - n) (paper F; docs/numerics.md). Three
    standard deviations of F, and a factor 1.3 for a sketch with zeta = 4 nonzeros a column and few columns.
    """
    spread = np.sqrt(2 / n + 2 / (d - n))
    return np.sqrt(1 + 1.3 * n / (d - n) * (1 + 3 * spread)) - 1


def compare(checks, make):
    """Solves every reading that make(folder) gives, on all its ranks and chunkings, and compares within its group."""
    print(f"data seed {SEED}, sketch seed 0")
    with Folder() as folder:
        readings, groups = make(folder)
        best = {g: np.linalg.norm(a @ np.linalg.lstsq(a, b, rcond=None)[0] - b, axis=0) for g, (a, b) in groups.items()}
        jobs = [(k, reading, ranks, chunk) for k, reading in enumerate(readings) for ranks in reading.ranks
                for chunk in reading.chunk_rows if chunk == 0 or ranks in (1, 3)]

        def solve(job):
            k, reading, ranks, chunk = job
            output = os.path.join(folder, f"x.{k}.{ranks}.{chunk}.h5")
            report = output + ".json"
            done = run(["solve", *reading.arguments, "--method", "sketch-solve", "-o", output, "--report", report,
                        "--chunk-rows", chunk, "--quiet"], ranks=ranks, cwd=folder)
            name = f"{reading.name} on {ranks} ranks, --chunk-rows {chunk}"
            if not checks.check(f"{name}: solved", done.code == 0, done):
                return None
            with h5py.File(output, "r") as file:
                x = file["x"][()]
            with open(report, encoding="utf-8") as file:
                sketch = strict_json(file.read())["sketch"]
                d = sketch["d"] - sketch["check_rows"]
            return reading, name, x, d

        results = [result for result in in_parallel(solve, jobs) if result]
        reference = {}
        for reading, name, x, d in results:
            a, b = groups[reading.group]
            first = reference.setdefault(reading.group, (name, x))
            if not checks.check(f"{name}: x has the shape of b's columns", x.shape == a.shape[1:] + b.shape[1:] and
                                x.dtype == np.float64, f"{x.shape} {x.dtype}"):
                continue
            checks.check(f"{name}: x equals that of '{first[0]}' bit for bit", x.tobytes() == first[1].tobytes(),
                         f"{x}\n{first[1]}")
            excess = np.linalg.norm(a @ x - b, axis=0) / best[reading.group] - 1
            bound = sketch_and_solve_bound(a.shape[1], d)
            checks.check(f"{name}: residual excess within [0, {bound:.3f}]",
                         np.all(excess > -1e-6) and np.all(excess < bound), f"excess {excess}, d = {d}")


def main():
    checks = Checks()
    compare(checks, make_files)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
