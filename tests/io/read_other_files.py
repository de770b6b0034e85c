#!/usr/bin/python3
"""Files of the types, orientations and formats that people have, written by h5py and numpy, give the x of the plain float32
file, bit for bit: integers, booleans, bfloat16, (n, m) storage as MATLAB and Julia write it, .npy of every kind, by every
--io; mixed shards, one of them empty; and what inspect and the report say of them. Run by CTest as io.read_other_files.
"""
import json
import os
import shutil
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from read_h5py_files import M, N, SEED, Reading, compare, matrix, write  # noqa: E402  pylint: disable=C0413
from script_runs import Checks, Folder, run, strict_json  # noqa: E402  pylint: disable=C0413

PACKED = {"compression": "gzip", "shuffle": True}


def bfloat16_bits(a):
    """The upper halves of float32: exact for integers up to 256."""
    return (np.ascontiguousarray(a, "<f4").view("<u4") >> 16).astype("<u2")


def save_bfloat16(path, a):
    """As numpy.save writes an array of ml_dtypes.bfloat16."""
    np.save(path, bfloat16_bits(a).view("V2"))


def write_bfloat16(path, bits, b, text):
    """uint16 with the attribute, as text of variable or fixed length."""
    write(path, A=bits, b=b)
    with h5py.File(path, "r+") as file:
        file["A"].attrs["dtype"] = text


def write_matlab(path, a, b):
    """As MATLAB's save -v7.3: transposed, a 512-byte user block with its text, MATLAB_class on every variable."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in (("A", a.T), ("b", b[None, :])):
            data = file.create_dataset(name, data=np.ascontiguousarray(value))
            data.attrs["MATLAB_class"] = np.bytes_("double")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")


def version_of_npy(path, a, version):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, a, version=version)


def make_integers(at, readings, groups, rng):
    """Group "small" has what int8, bfloat16 and booleans hold; "bits" only 0 and 1."""
    small, b = matrix(M, N) % 101, rng.integers(-100, 100, M).astype(np.float64)
    groups["small"] = (small, b)
    write(at("small.h5"), A=small.astype("f4"), b=b.astype("f4"))
    readings.append(Reading("small, float32", [at("small.h5")], "small", ranks=(1,)))
    for dtype in ("i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", ">u4", "<i8", ">i8", "<u8"):
        name = at(f"small_{dtype.strip('<>')}_{'big' if dtype[0] == '>' else 'little'}.h5")
        to = {"chunks": (100, 3), **PACKED} if dtype == "<i4" else {}
        write(name, A=(small.astype(dtype), to), b=b.astype(">i2" if dtype[0] == ">" else "i1"))
        readings.append(Reading(f"A {dtype}, b integers", [name], "small", ranks=(3,), chunk_rows=(100,)))
    for name, text in (("variable", "bfloat16"), ("fixed", np.bytes_("bfloat16"))):
        write_bfloat16(at(f"bfloat16_{name}.h5"), bfloat16_bits(small), b, text)
        readings.append(Reading(f"bfloat16, {name} attribute", [at(f"bfloat16_{name}.h5")], "small", ranks=(3,)))
    write_bfloat16(at("bfloat16_big.h5"), bfloat16_bits(small).astype(">u2").T, b, "bfloat16")
    readings.append(Reading("bfloat16 big-endian (n, m)", [at("bfloat16_big.h5"), "--transpose"], "small", ranks=(2,)))
    save_bfloat16(at("bfloat16.npy"), small)
    np.save(at("small_b.npy"), b.astype("i1"))
    readings.append(Reading("bfloat16 .npy", [at("bfloat16.npy"), "--b", at("small_b.npy")], "small", ranks=(1, 3)))
    bits = rng.integers(0, 2, (M, N)).astype(np.float64)
    groups["bits"] = (bits, b[::-1])
    write(at("bits.h5"), A=bits.astype("f4"), b=b[::-1])
    write(at("bool.h5"), A=bits.astype("?"), b=b[::-1])
    np.save(at("bool.npy"), bits.astype("?"))
    readings += [Reading("0 and 1, float32", [at("bits.h5")], "bits", ranks=(1,)),
                 Reading("booleans of h5py", [at("bool.h5")], "bits", ranks=(1, 3)),
                 Reading("booleans .npy", [at("bool.npy"), "--b", at("bits.h5") + ":/b"], "bits", ranks=(3,))]


def make_transposed(at, readings, a, b, b3):
    """(n, m), read by columns: C-08 and C-11."""
    each_io = lambda *arguments: [(io, [*arguments, "--transpose", "--io", io]) for io in ("auto", "mpio", "direct")]  # noqa: E731
    for dtype in ("<f4", ">f8", "<f2", "<i4"):
        name = at(f"across_{dtype[1:]}.h5")
        write(name, A=np.ascontiguousarray(a.T).astype(dtype), b=b)
        readings += [Reading(f"(n, m) {dtype}, --io {io}", arguments, "main", ranks=(1, 3) if dtype == "<f4" else (3,), chunk_rows=(100,))
                     for io, arguments in each_io(name)]
    for name, keywords in (("plain", {"chunks": (3, 64)}), ("gzip", {"chunks": (2, 100), **PACKED}),
                           ("rows", {"chunks": (1, M), **PACKED})):
        write(at(f"across_{name}.h5"), A=(a.T.astype("f4"), keywords), b=b)
        readings.append(Reading(f"(n, m) chunked, {name}", [at(f"across_{name}.h5"), "--transpose"], "main",
                                ranks=(1, 3), chunk_rows=(99,)))
    write_matlab(at("matlab.h5"), a, b)
    readings += [Reading(f"MATLAB, --io {io}", arguments, "main", ranks=(3,))
                 for io, arguments in each_io(at("matlab.h5"))]
    write(at("across_b3.h5"), A=np.ascontiguousarray(a.T), b=np.ascontiguousarray(b3.T))
    write(at("across_a_only.h5"), A=np.ascontiguousarray(a.T), b=b3)
    readings += [Reading("A (n, m), b (r, m)", [at("across_b3.h5"), "--transpose"], "r3", ranks=(1, 3)),
                 Reading("A (n, m), b (m, r)", [at("across_a_only.h5"), "--transpose"], "r3", ranks=(3,))]
    cuts, shards = [0, 1, 700, 700, 1500, M], []
    for k, (begin, end) in enumerate(zip(cuts, cuts[1:])):
        shards.append(at(f"across.{k}.h5"))
        keywords = {"chunks": (2, 64), **PACKED} if k == 3 else {}
        write(shards[-1], A=(np.ascontiguousarray(a[begin:end].T).astype(">f4" if k == 4 else "<f4"), keywords),
              b=b[begin:end])
    readings += [Reading("(n, m) shards", [*shards, "--transpose"], "main", ranks=(1, 3), chunk_rows=(99,)),
                 Reading("(n, m) shards of one order", [*shards[:4], shards[4], "--transpose", "--io", "auto"], "main",
                         ranks=(2,))]


def make_npy(at, readings, a, b, b3):
    np.save(at("b.npy"), b)
    np.save(at("b3_fortran.npy"), np.asfortranarray(b3))
    with_b = ["--b", at("b.npy")]
    for dtype in ("<f4", ">f4", "<f8", ">f8", "<f2", "<i2", ">i8"):
        for order in ("C", "F"):
            name = at(f"a_{'big' if dtype[0] == '>' else 'little'}_{dtype[1:]}_{order}.npy")
            np.save(name, np.array(a.astype(dtype), order=order))
            readings.append(Reading(f".npy {dtype} {order}", [name, *with_b], "main", ranks=(3,), chunk_rows=(100,)))
    for version in ((1, 0), (2, 0), (3, 0)):
        version_of_npy(at(f"version_{version[0]}.npy"), a.astype("f4"), version)
        readings.append(Reading(f".npy version {version[0]}", [at(f"version_{version[0]}.npy"), *with_b], "main", ranks=(1,)))
    np.save(at("across.npy"), np.ascontiguousarray(a.T.astype("f4")))
    np.save(at("across_fortran.npy"), np.asfortranarray(a.T.astype("f4")))
    shutil.copyfile(at("version_1.npy"), at("named_as_it_likes.dat"))
    write(at("only_b.h5"), b=b)
    readings += [
        Reading(".npy (n, m)", [at("across.npy"), *with_b, "--transpose"], "main", ranks=(1, 3)),
        Reading(".npy (n, m) in Fortran order", [at("across_fortran.npy"), *with_b, "--transpose"], "main", ranks=(3,)),
        Reading("known by its magic", [at("named_as_it_likes.dat"), *with_b], "main", ranks=(2,)),
        Reading(".npy and b in HDF5", [at("a_little_f4_C.npy"), "--b", at("only_b.h5") + ":/b"], "main", ranks=(2,)),
        Reading("HDF5 and b in .npy", [at("plain.h5"), *with_b], "main", ranks=(2,)),
        Reading("b (m, 3) .npy in Fortran order", [at("plain.h5"), "--b", at("b3_fortran.npy")], "r3", ranks=(1, 3)),
    ]
    # Shards of one type in both orders, both orientations and both formats; one without rows.
    parts = [a[:5].astype("<f4"), a[5:5].astype("<f4"), np.asfortranarray(a[5:900].astype("<f4")), a[900:1700].astype(">f4")]
    names = []
    for k, part in enumerate(parts):
        names.append(at(f"part.{k}.npy"))
        np.save(names[-1], part)
    write(at("part.4.h5"), A=a[1700:].astype("f4"))
    readings.append(Reading("mixed shards", [*names, at("part.4.h5"), *with_b], "main", ranks=(1, 3), chunk_rows=(77,)))


def make_files(folder):
    """Writes all files; returns the readings and, by group, (A, b) in float64. The first of each group is the reference."""
    rng = np.random.default_rng(SEED)
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    a, b = matrix(M, N), rng.integers(-500, 500, M).astype(np.float64)
    b3 = rng.integers(-500, 500, (M, 3)).astype(np.float64)
    groups, readings = {"main": (a, b), "r3": (a, b3)}, []
    write(at("plain.h5"), A=a.astype("f4"), b=b.astype("f4"))
    write(at("r3.h5"), A=a, b=b3)
    readings += [Reading("contiguous float32", [at("plain.h5")], "main", ranks=(1,)),
                 Reading("b (m, 3)", [at("r3.h5")], "r3", ranks=(1,))]
    for io in ("mpio", "direct"):
        readings.append(Reading(f"--io {io}", [at("plain.h5"), "--io", io], "main", ranks=(1, 3), chunk_rows=(7,)))
    with h5py.File(at("user_block.h5"), "w", userblock_size=1024) as file:
        file["A"], file["b"] = a.astype(">f4"), b
    readings.append(Reading("user block, --io direct", [at("user_block.h5"), "--io", "direct"], "main", ranks=(1, 3)))
    make_integers(at, readings, groups, rng)
    make_transposed(at, readings, a, b, b3)
    make_npy(at, readings, a, b, b3)
    return readings, groups


def check_words(checks):
    """What the report, the log and inspect say."""
    with Folder() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        a, b = matrix(M, N), np.arange(M, dtype=np.float64)

        def solve(name, *more):
            report = at("report.json")
            done = run(["solve", at(name), "-o", at("x.h5"), "--report", report, "--method", "sketch-solve", *more], cwd=folder)
            checks.check(f"{name} {more}: solved", done.code == 0, done)
            with open(report, encoding="utf-8") as file:
                return strict_json(file.read())

        def warns(name, words, *more, no=False):
            warnings = solve(name, *more)["warnings"]
            found = any(all(word in warning for word in words) for warning in warnings)
            checks.check(f"{name} {more}: {'no ' if no else ''}warning with {words}", found != no, json.dumps(warnings))

        write(at("u2.h5"), A=a.astype("u2"), b=b)
        warns("u2.h5", ["uint16", 'dtype = "bfloat16"'])
        write_bfloat16(at("bf.h5"), bfloat16_bits(a % 101), b, "bfloat16")
        warns("bf.h5", ["dtype"], no=True)
        for name in ("i8", "u8"):
            write(at(name + ".h5"), A=a.astype(name), b=b)
            warns(name + ".h5", ["2^53"])
        write(at("i4.h5"), A=a.astype("i4"), b=b)
        warns("i4.h5", ["2^53"], no=True)
        write(at("f8.h5"), A=a.astype(">f8"), b=b)
        warns("f8.h5", ["float64", "float32", "--data-precision fp32"], "--data-precision", "fp32")
        warns("f8.h5", ["--data-precision"], no=True)
        write_matlab(at("tall.h5"), np.ascontiguousarray(a.T), b)  # MATLAB showed a wide matrix
        with h5py.File(at("tall.h5"), "r+") as file:
            del file["b"]
            file["b"] = b
        warns("tall.h5", ["MATLAB", "--transpose"])
        write_matlab(at("square.h5"), np.random.default_rng(SEED).standard_normal((N, N)), b[:N])
        np.save(at("b.npy"), b[:N])
        warns("square.h5", ["square", "--transpose", "MATLAB"], "--b", at("b.npy"))
        warns("square.h5", ["square", "column by column"], "--transpose")
        problem = solve("f8.h5", "--data-precision", "fp32")["problem"]
        checks.check("report of fp32", (problem["dtype"], problem["computed_dtype"]) == ("float64 big-endian", "float32"), problem)
        report = solve("f8.h5", "--io", "direct")
        checks.check("report of --io direct", report["io"]["mode"].startswith("direct, "), report["io"])
        checks.check("report of float64", report["problem"]["computed_dtype"] == "float64", report["problem"])
        np.save(at("f4.npy"), a.astype("f4"))
        np.save(at("long_b.npy"), b)
        write(at("plain_f4.h5"), A=a.astype("f4"), b=b)
        write(at("chunked_f4.h5"), A=(a.astype("f4"), {"chunks": (100, 3)}), b=b)
        write(at("transposed_f4.h5"), A=np.ascontiguousarray(a.T), b=b)
        parallel = os.environ.get("TALLSKETCH_HDF5_PARALLEL", "1") == "1"
        by_library = "mpio independent" if parallel else "serial HDF5, each rank by itself"
        for name, more, starts, also in (("plain_f4.h5", [], "direct, ", ""), ("f4.npy", ["--b", at("long_b.npy")], "direct, ", ""),
                                         ("transposed_f4.h5", ["--transpose"], "direct, ", ""),
                                         ("chunked_f4.h5", [], by_library, "; b: direct, ")):
            for io in ([], ["--io", "auto"]):
                mode = solve(name, *more, *io)["io"]["mode"]
                checks.check(f"{name} {io}: auto reads it by '{starts}'", mode.startswith(starts) and
                             (also in mode if also else "; b:" not in mode), mode)
        write(at("across.h5"), A=(a.T.astype(">i2"), {"chunks": (2, 50), **PACKED}), b=b)
        seen = run(["inspect", at("across.h5"), "--transpose"], cwd=folder)
        for word in (f"{M} x {N}", "int16 big-endian", "stored (n, m)", "chunked (2 x 50), shuffle, gzip", "by columns",
                     "swapped", "computed with as float32", "serial HDF5"):
            checks.check(f"inspect says '{word}'", seen.code == 0 and word in seen.out, seen)


def main():
    checks = Checks()
    compare(checks, make_files)
    check_words(checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
