#!/usr/bin/python3
"""Public bug reports of neighbouring software (docs/robustness.md), as small inputs with a known right answer: most
of the numerics, and some of the files.

C-08, C-28, C-29, C-33, C-34, C-36, C-37, C-40, C-45 and C-46; what is expected comes from integers, numpy or the certified values. Seeds are
fixed. Run by CTest as cli.cases.
"""
import hashlib
import os
import re
import subprocess
import sys

import h5py
import numpy as np

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)
from least_squares import direct_solution, make_problem, solve, write_problem  # noqa: E402  pylint: disable=C0413
from script_runs import MPIEXEC, PROGRAM, SOURCE, Checks, Folder, in_parallel, read_x, run, run_command  # noqa: E402  pylint: disable=C0413

SEED = 900
ON_HOST = ["--backend", "host"]
SKETCHED = ["--preconditioner", "sketch"]
PARALLEL_HDF5 = os.environ.get("TALLSKETCH_HDF5_PARALLEL", "1") == "1"


def check_transposed(checks, folder):
    """C-08: columns of a wide (n, m) dataset by MPI-IO are the same by ranks, and by both of Open MPI's implementations."""
    rng = np.random.default_rng(SEED + 3)
    across = rng.integers(-8, 9, (64, 100_003)).astype("f4")
    path = os.path.join(folder, "across.h5")
    write_problem(path, across, across.T @ np.arange(64.0))
    options = ["--transpose", "--io", "mpio", "--chunk-rows", "5000", "--method", "sketch-solve", "--quiet", *ON_HOST]
    found = set()
    for ranks, io in ((1, "ompio"), (3, "ompio"), (3, "romio321")):
        output = os.path.join(folder, f"across.{ranks}.{io}.x.h5")
        done = run(["solve", path, "-o", output, *options], ranks=ranks, environment={"OMPI_MCA_io": io})
        if checks.check(f"C-08: {ranks} ranks, {io}: exit 0", done.code == 0, done):
            found.add(read_x(output).tobytes())
    checks.check("C-08: one x, bit for bit", len(found) == 1, len(found))


def check_sharing(checks, folder):
    """C-40: input that others read at the same time, and on a file system that takes no writes."""
    place, path = os.path.join(folder, "shared"), os.path.join(folder, "shared", "p.h5")
    os.mkdir(place)
    write_problem(path, *make_problem("gaussian", 5000, 20, 10, 1.0, np.random.default_rng(SEED + 4)))

    def one(k):
        return run(["solve", path, "-o", os.path.join(folder, f"shared.{k}.h5"), "--io", "mpio", "--quiet"], ranks=2)

    for done in in_parallel(one, range(2)):
        checks.check("C-40: two solves of one input at once", done.code == 0, done)
    mounted = os.path.join(folder, "read_only")
    os.mkdir(mounted)
    if subprocess.run(["mount", "--bind", place, mounted], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        print("left out: input on a read-only file system (no mounts here)")
        return
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", mounted], check=True)
        path = os.path.join(mounted, "p.h5")
        for k, way in enumerate(("direct", "mpio")):
            done = run(["solve", path, "-o", os.path.join(folder, f"read_only.{k}.h5"), "--io", way, "--quiet"], ranks=1 + k)
            checks.check(f"C-40: read-only input, --io {way}", done.code == 0, done)
        done = run(["solve", path, "--quiet"])
        checks.check("C-40: but no result beside it: exit 9 and why", done.code == 9 and "Read-only file system" in done.err, done)
    finally:
        subprocess.run(["umount", mounted], check=True)


def warned(solved, words):
    return any(words in warning for warning in solved.report["warnings"])


def check_nearly_parallel(checks, folder):
    """C-28: [x, 1] with x near 4.155e9. float64 has the slope; of what cannot hold such integers it is said."""
    k = np.arange(1000)
    x = 4155915305 + 190 * k
    b = 0.0025 * x + 7 + 50 * np.sin(k)
    centred = (x - x.mean()).astype(np.longdouble)
    slope = float(centred @ b / (centred @ centred))
    path = os.path.join(folder, "parallel.h5")
    for dtype, words in (("f8", None), ("i8", "A is int64: integers beyond 2^53"), ("f4", "A is float32: if its numbers were rounded")):
        write_problem(path, np.c_[x, np.ones(1000)].astype(dtype), b)
        for ranks, options in ((1, []), (3, SKETCHED)):
            name = f"C-28: {dtype}, {ranks} ranks {' '.join(options)}"
            solved = solve(path, options, ranks)
            if not checks.check(f"{name}: exit 0", solved.done.code == 0, solved):
                continue
            checks.check(f"{name}: condition told", 1e5 < solved.solver["condition_estimate"] < 3e5 and
                         "condition of A with scaled columns about 1." in solved.done.out, solved)
            checks.check(f"{name}: warned, if at all, that A is not exact",
                         warned(solved, words) if words else not warned(solved, "A is "), solved.report["warnings"])
            off = abs(solved.x[0] / slope - 1)
            checks.check(f"{name}: slope off by {off:.1g}", off < (1e-6 if dtype != "f4" else 0.01), (solved.x, slope))


def check_integers(checks, folder):
    """C-28: the same integers in float64, int64 and float32, which holds them, have the same coefficients."""
    a = np.random.default_rng(SEED).integers(1000, 10000, (10**6, 3))
    b = 3.0 * a[:, 0] + a[:, 1] - 5 * a[:, 2] + 2
    gram, right = a.T @ a, a.T @ b  # exact: below 2^53
    expected = np.linalg.solve(gram, right)
    path = os.path.join(folder, "integers.h5")
    for dtype in ("f8", "i8", "f4"):
        write_problem(path, a.astype(dtype), b)
        for ranks, options in ((1, []), (2, SKETCHED)):
            name = f"C-28: integers as {dtype}, {ranks} ranks {' '.join(options)}"
            solved = solve(path, options, ranks)
            if checks.check(f"{name}: exit 0", solved.done.code == 0, solved):
                checks.check(f"{name}: x", np.allclose(solved.x, expected, rtol=1e-9), (solved.x, expected))
                checks.check(f"{name}: nothing said of float32", not warned(solved, "A is float32"), solved.report["warnings"])


def check_step_limit(checks, folder):
    """C-29: out of steps is exit 6 with its reason; x and its residual are there all the same."""
    a, b = make_problem("gaussian", 5000, 20, 1e6, 1.0, np.random.default_rng(SEED + 1))
    path = os.path.join(folder, "limit.h5")
    write_problem(path, a, b)
    for ranks, options, steps in ((1, [], 1), (3, [], 1), (1, SKETCHED, 1), (3, SKETCHED, 1), (1, [], 0), (3, SKETCHED, 0)):
        name = f"C-29: {ranks} ranks {' '.join(options)} --max-iters {steps}"
        solved = solve(path, [*options, "--max-iters", steps, "--tol", 1e-14], ranks)
        if not checks.check(f"{name}: exit 6, not converged, why", solved.done.code == 6 and solved.solver["converged"] is False
                            and solved.solver["reason"].startswith("step limit") and "step limit" in solved.done.err, solved):
            continue
        residual = np.linalg.norm(b - a @ solved.x)
        checks.check(f"{name}: x is written, with its residual", abs(solved.solver["residual_norm"] / residual - 1) < 1e-9, solved)
    # A start that is exact needs no step, and no test of what it was preconditioned by.
    write_problem(path, np.eye(40, 4), np.arange(40) % 37 * (np.arange(40) < 4))
    exact = solve(path, ["--max-iters", 0])
    checks.check("C-29: no step, and an exact start: solved", exact.done.code == 0 and exact.solver["converged"] is True and
                 np.array_equal(exact.x.reshape(-1), np.arange(4.0)), exact)


def check_half_reduce(checks, folder):
    """C-33: sums that pass 65504, or fall below 6e-8, in a reduction of halves: scaled, never inf or 0."""
    path = os.path.join(folder, "half.h5")
    for value in (20000.0, 1e-7, 1e-9):
        write_problem(path, np.full((4096, 1), value, "f4"), np.full(4096, 3 * value))
        for reduce, limit in (("fp32", 1e-6), ("fp16", 4 * 2.0 ** -11)):
            name = f"C-33: {value:g} by --reduce {reduce}"
            solved = solve(path, ["--method", "sketch-solve", "--sketch-rows", 16, "--check-rows", 0, "--reduce", reduce], 4)
            if checks.check(f"{name}: exit 0", solved.done.code == 0, solved):
                checks.check(f"{name}: reduced so", solved.report["precision"]["reduce"] == reduce, solved.report["precision"])
                checks.check(f"{name}: x", abs(solved.x[0] / 3 - 1) < limit, solved.x)


def check_odd_widths(checks, folder):
    """C-34: float16 of odd widths, in chunks that begin at odd rows, has the x of float32."""
    def one(width):
        rng = np.random.default_rng(SEED + width)
        a, b = rng.integers(-9, 10, (401, width)), rng.integers(-9, 10, 401).astype(float)
        found = []
        for dtype in ("f2", "f4"):
            path = os.path.join(folder, f"odd.{width}.{dtype}.h5")
            write_problem(path, a.astype(dtype), b)
            solved = solve(path, [*SKETCHED, "--chunk-rows", 7], 3)
            checks.check(f"C-34: n = {width}, {dtype}: exit 0", solved.done.code == 0, solved)
            found.append(solved.x)
        if found[0] is not None and found[1] is not None:
            expected = direct_solution(a.astype(float), b)
            checks.check(f"C-34: n = {width}: same bits from both types", found[0].tobytes() == found[1].tobytes(), found)
            checks.check(f"C-34: n = {width}: x", np.allclose(found[0], expected, rtol=1e-9, atol=1e-12), (found[0], expected))

    in_parallel(one, (1, 3, 5, 7, 9, 15, 17, 31, 33))


def check_same_bits(checks, folder):
    """C-36: on the host the same seed and ranks have the same bits, of S A and of x; another seed has others."""
    a, b = make_problem("gaussian", 5000, 20, 100, 1.0, np.random.default_rng(SEED + 2))
    path, sketch = os.path.join(folder, "bits.h5"), os.path.join(folder, "bits.s.h5")
    write_problem(path, a, b)

    def bits(seed):
        done = run(["sketch", path, "-o", sketch, "--quiet", "--seed", seed, *ON_HOST], ranks=3)
        solved = solve(path, [*SKETCHED, "--seed", seed, *ON_HOST], 3)
        if not checks.check("C-36: sketch and solve", (done.code, solved.done.code) == (0, 0), (done, solved)):
            return None, None
        with h5py.File(sketch, "r") as file:
            return [hashlib.sha256(values.tobytes()).hexdigest() for values in (file["SA"][()], solved.x)]

    same, other = [bits(0) for _ in range(4)], bits(1)
    for k, what in enumerate(("S A", "x")):
        checks.check(f"C-36: four runs have one {what}", len({hashes[k] for hashes in same}) == 1, same)
        checks.check(f"C-36: another seed has another {what}", other[k] != same[0][k], other)


def check_memory(checks, folder):
    """C-37: the largest rank's memory does not grow with the ranks: sketches are summed, not gathered."""
    n = 1000
    path = os.path.join(folder, "memory.h5")
    checks.check("C-37: generate", run(["generate", path, "--rows", 10000, "--cols", n, "--quiet"]).code == 0)
    options = [*SKETCHED, "--oversample", "4", "--residency", "file", "--chunk-rows", "500", "--quiet", *ON_HOST]
    peaks = {}
    for ranks in (1, 2, 5):
        done = run_command([MPIEXEC, "-n", str(ranks), sys.executable, os.path.join(SUPPORT, "peak_memory.py"), PROGRAM, "solve",
                            path, *options, "-o", os.path.join(folder, "memory.x.h5")])
        found = [int(number) for number in re.findall(r"peak_memory (\d+)", done.out)]
        if not checks.check(f"C-37: {ranks} ranks: solved", done.code == 0 and len(found) == ranks, done):
            return
        peaks[ranks] = max(found)
    print("C-37: most memory of a rank, MB:", {ranks: round(peak / 1e6) for ranks, peak in peaks.items()})
    # A gather of every rank's R, n x n in FP32, would take 4 n^2 more for each; of the sketches four times that.
    checks.check("C-37: memory of five ranks is that of one", peaks[5] < peaks[1] + 8 * n * n and peaks[2] < peaks[1] + 4 * n * n, peaks)


def check_mode(checks, folder):
    """C-45 (and C-03): the report tells how A was read; types that others convert are decoded here, in the mode that was asked for."""
    a = (7 * np.arange(2003)[:, None] + 3 * np.arange(7)) % 1000
    b = a @ np.arange(1.0, 8) + np.arange(2003) % 5
    mpio = "mpio independent" if PARALLEL_HDF5 else "serial HDF5, each rank by itself"
    found = set()
    for dtype in ("<f8", ">f8", ">i4", "<i8"):
        for layout, ways in (({}, {"direct": "direct, ", "mpio": mpio}),
                             ({"compression": "gzip", "shuffle": True, "chunks": (64, 7)}, {"auto": mpio})):
            path = os.path.join(folder, "mode.h5")
            with h5py.File(path, "w") as file:
                file.create_dataset("A", data=a.astype(dtype), **layout)
                file["b"] = b
            for way, mode in ways.items():
                name = f"C-45: {dtype} {'gzip' if layout else 'contiguous'}, --io {way}"
                solved = solve(path, ["--io", way, "--chunk-rows", 300, "--data-precision", "stored"], 2)
                if checks.check(f"{name}: exit 0", solved.done.code == 0, solved):
                    checks.check(f"{name}: io.mode", solved.report["io"]["mode"].startswith(mode), solved.report["io"])
                    found.add(solved.x.tobytes())
    checks.check("C-45, C-03: one x, bit for bit", len(found) == 1, len(found))


def check_longley(checks, folder):
    """C-46: Longley has 554894, which no half holds: refused with its place, or scaled; no infinity in silence."""
    subprocess.run([sys.executable, os.path.join(SOURCE, "data", "nist.py"), "-o", folder, "--replicate", "100"], check=True,
                   stdout=subprocess.DEVNULL)
    with h5py.File(os.path.join(folder, "longley.h5"), "r") as file:
        a, b = file["A"][()], file["b"][()].reshape(-1)
    half = os.path.join(folder, "longley.half.h5")
    with np.errstate(over="ignore"):
        write_problem(half, a.astype("f2"), b)
    for ranks in (1, 3):
        refused = solve(half, [], ranks)
        checks.check(f"C-46: infinite halves in the file, {ranks} ranks: exit 4, count and place", refused.done.code == 4 and
                     f"A has {(np.abs(a) > 65519).sum()} non-finite values" in refused.done.err and
                     "row 0, column 2" in refused.done.err and refused.x is None, refused)
        one_pass = ["--method", "sketch-solve", "--sketch-rows", 128, "--reduce", "fp16"]
        solved = solve(os.path.join(folder, "longley.h5"), one_pass, ranks)
        if checks.check(f"C-46: reduced in halves, {ranks} ranks: exit 0", solved.done.code == 0, solved):
            residual, least = (np.linalg.norm(b - a @ x) for x in (solved.x, direct_solution(a, b)))
            print(f"C-46: {ranks} ranks: residual {residual / least:.3f} of the least, {residual / np.linalg.norm(b):.2g} of ||b||")
            # Halves of columns scaled to their range: their rounding alone, once for each rank.
            checks.check(f"C-46: reduced in halves, {ranks} ranks: residual", residual < 2 * least + ranks * 2.0 ** -11 *
                         np.linalg.norm(b), (residual, least))


def main():
    checks = Checks()
    print(f"data seeds from {SEED}, sketch seed 0")
    with Folder() as folder:
        for part in (check_transposed, check_sharing, check_nearly_parallel, check_integers, check_step_limit, check_half_reduce,
                     check_odd_widths, check_same_bits, check_memory, check_mode, check_longley):
            part(checks, folder)
            print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
