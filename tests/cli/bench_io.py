#!/usr/bin/python3
"""bench io prints one strict JSON line of rates that hang together, and refuses what solve refuses.

Run by CTest as cli.bench_io.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, run, strict_json  # noqa: E402  pylint: disable=C0413

M, N = 4001, 33
RATES = ["pread_gb_per_s", "read_gb_per_s", "sketch_gb_per_s", "stream_gb_per_s"]
KEYS = ["bench", "backend", "device", "commit", "ranks", "threads", "files", "m", "n", "r", "dtype", "layout", "io", "gb",
        "chunk_rows", "d", "repeats", *RATES, "host_decode_gb_per_s", "pinned_copy_gb_per_s", "read_over_pread", "stream_over_slower"]
ON_HOST = ["--backend", "host"]


def one_line(checks, name, arguments, ranks, cwd):
    """Runs bench io; its line, or None."""
    done = run(["bench", "io", *arguments, *ON_HOST, "--chunk-rows", 300], ranks=ranks, cwd=cwd)
    lines = done.out.splitlines()
    if not checks.check(f"{name}: exit 0 and one line", done.code == 0 and len(lines) == 1, done):
        return None
    line = strict_json(lines[0])
    checks.check(f"{name}: the keys", set(KEYS) <= set(line), line)
    checks.check(f"{name}: shape and ranks", (line["m"], line["n"], line["ranks"], line["backend"]) == (M, N, ranks, "host"), line)
    checks.check(f"{name}: no device, no copies", line["pinned_copy_gb_per_s"] is None and line["stream_over_slower"] is None, line)
    return line


def main():
    checks = Checks()
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((M, N)).astype("f4"), rng.standard_normal(M).astype("f4")
    with Folder() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        with h5py.File(at("plain.h5"), "w") as file:
            file["A"], file["b"] = a, b
        with h5py.File(at("gzip.h5"), "w") as file:
            file.create_dataset("A", data=a, chunks=(64, N), compression="gzip", shuffle=True)
            file["b"] = b
        with h5py.File(at("big.h5"), "w") as file:
            file["A"], file["b"] = a.astype(">f4"), b
        with h5py.File(at("across.h5"), "w") as file:
            file["A"], file["b"] = np.ascontiguousarray(a.T), b
        with h5py.File(at("more.h5"), "w") as file:
            file["A"], file["b"], file["other"] = a, b, np.zeros(4 * M * N)
        for part in (0, 1):
            with h5py.File(at(f"s{part}.h5"), "w") as file:
                rows = slice(part * 1500, 1500 if part == 0 else M)
                file["A"], file["b"] = a[rows], b[rows]
        for ranks in (1, 3):
            for name, files in (("plain", ["plain.h5"]), ("shards", ["s0.h5", "s1.h5"])):
                line = one_line(checks, f"{name} on {ranks} ranks", [*files, "--repeats", 2], ranks, folder)
                if line:
                    checks.check(f"{name} on {ranks}: all rates", all(line[key] > 0 for key in RATES), line)
                    # Of times; rates have the bytes of whole files above them.
                    sizes = sum(os.path.getsize(at(file)) for file in files) / 1e9
                    quotient = sizes / line["pread_gb_per_s"] / (line["gb"] / line["read_gb_per_s"])
                    checks.check(f"{name} on {ranks}: the ratio is that of the times", abs(
                        line["read_over_pread"] / quotient - 1) < 1e-9, (line, quotient))
                    checks.check(f"{name} on {ranks}: bytes of A", abs(line["gb"] - 4e-9 * M * N) < 1e-15, line)
                    checks.check(f"{name} on {ranks}: files", line["files"] == len(files), line)
                    checks.check(f"{name} on {ranks}: nothing to decode", line["host_decode_gb_per_s"] is None, line)
        for name in ("big", "across"):
            options = ["--transpose"] if name == "across" else []
            line = one_line(checks, name, [name + ".h5", "--repeats", 1, *options], 2, folder)
            if line:
                checks.check(f"{name}: all rates, and that of the host's decoder", all(
                    line[key] > 0 for key in [*RATES, "host_decode_gb_per_s"]) and "decode_gb_per_s" not in line, line)
        for name in ("gzip", "more"):
            line = one_line(checks, name, [name + ".h5", "--repeats", 1], 1, folder)
            if line:
                checks.check(f"{name}: other bytes than those of A are not compared", line["read_over_pread"] is None and
                             all(line[key] > 0 for key in RATES), line)
        line = one_line(checks, "kind", ["--kind", "uniform", "--rows", M, "--cols", N, "--repeats", 1], 2, folder)
        if line:
            checks.check("kind: no file", line["files"] == 0 and line["pread_gb_per_s"] is None and
                         line["read_gb_per_s"] > 0 and line["sketch_gb_per_s"] > 0, line)
        done = run(["bench", "io", "plain.h5", "--repeats", 1, "--quiet", *ON_HOST], cwd=folder)
        checks.check("quiet: one line, nothing on standard error", done.code == 0 and done.err == "" and
                     len(done.out.splitlines()) == 1, done)
        for arguments, code in ((["missing.h5"], 3), ([], 2), (["plain.h5", "--repeats", 0], 2),
                                (["plain.h5", "--kind", "uniform", "--rows", 9, "--cols", 2], 2), (["plain.h5", "--a", "/C"], 3)):
            for ranks in (1, 2):
                done = run(["bench", "io", *arguments, *ON_HOST], ranks=ranks, cwd=folder)
                checks.check(f"{arguments} on {ranks} ranks: code {code}, one message", done.code == code and not done.out and
                             done.err.count("tallsketch: error:") == 1, done)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
