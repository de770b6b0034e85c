#!/usr/bin/python3
"""`bench reduce` and `bench sketch` on several ranks: one line a case, in JSON and in a table; sums that are right and repeat.

Run by CTest as cli.bench_reduce.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, run, strict_json  # noqa: E402  pylint: disable=C0413


def lines_of(done):
    """The JSON lines of standard output."""
    return [strict_json(line) for line in done.out.splitlines()]


def check_reduce(checks, ranks):
    """All sizes and precisions of a small grid."""
    done = run(["bench", "reduce", "--sketch-rows", "40,129", "--cols", "1,31", "--precision", "fp32,fp16,fp64",
                "--repeats", 3, "--rhs", 2], ranks=ranks)
    if not checks.check(f"{ranks} ranks: exit 0", done.code == 0, done):
        return
    lines = lines_of(done)
    grid = [(precision, n, d) for precision in ("fp32", "fp16", "fp64") for n in (1, 31) for d in (40, 129)]
    checks.check(f"{ranks} ranks: every case once", [(line["precision"], line["n"], line["d"]) for line in lines] == grid, done)
    for line in lines:
        width = {"fp32": 4, "fp16": 2, "fp64": 8}[line["precision"]]
        of_b = {"fp32": 4, "fp16": 4, "fp64": 8}[line["precision"]]
        what = f"{ranks} ranks, {line['precision']}, {line['d']} x {line['n']} + 2"
        checks.check(f"{what}: bytes", line["bytes"] == line["d"] * (line["n"] * width + 2 * of_b), line)
        checks.check(f"{what}: right and the same every time", line["exact"] is True and line["repeatable"] is True, line)
        checks.check(f"{what}: times", 0 < line["least_ms"] <= line["ms"] and line["ranks"] == ranks and line["nodes"] == 1, line)
        rate = line["bytes"] / line["ms"] / 1e6
        checks.check(f"{what}: rates", abs(line["gb_per_s"] - rate) < 1e-6 * rate and
                     abs(line["bus_gb_per_s"] - rate * 2 * (ranks - 1) / ranks) <= 1e-6 * rate, line)
    checks.check(f"{ranks} ranks: a hint where nothing is reduced", done.err.count("on one rank nothing is sent or summed") == (ranks == 1) and
                 f" {ranks} rank{'s' * (ranks > 1)} on 1 node," in done.err, done)
    table = [line for line in done.err.splitlines() if " yes " in line]
    checks.check(f"{ranks} ranks: a table", len(table) == len(grid), done)


def main():
    """All ranks and errors."""
    checks = Checks()
    for ranks in (1, 2, 3):
        check_reduce(checks, ranks)
    quiet = run(["bench", "reduce", "--sketch-rows", 8, "--cols", 2, "--repeats", 1, "--quiet"], ranks=2)
    checks.check("--quiet: JSON lines alone", quiet.code == 0 and len(lines_of(quiet)) == 2 and not quiet.err.strip(), quiet)
    for name, arguments in (("no rows", ["--sketch-rows", 0]), ("bf16", ["--precision", "bf16"]), ("no repeats", ["--repeats", 0])):
        done = run(["bench", "reduce", *arguments], ranks=2)
        checks.check(f"{name}: exit 2, one message", done.code == 2 and done.err.count("tallsketch: error:") == 1 and
                     arguments[0] in done.err, done)
    alone = run(["bench", "reduce", "--sketch-rows", 8, "--cols", 2, "--repeats", 1, "--quiet"])
    checks.check("--quiet: no hint either", alone.code == 0 and not alone.err.strip(), alone)
    small = ["bench", "reduce", "--sketch-rows", 64, "--cols", 8, "--precision", "fp32"]
    huge = ["bench", "reduce", "--sketch-rows", 1 << 30, "--cols", 1 << 24]
    for name, arguments, fault, reason in (("more than the machine has", huge, {}, "are free for a rank"),
                                           ("memory ends on one rank", small, {"TALLSKETCH_FAULT": "1:bench reduce:oom"}, "out of memory")):
        done = run(arguments, ranks=2, environment=fault)
        told = [line for line in done.err.splitlines() if line.startswith("tallsketch: error:")]
        checks.check(f"{name}: exit 7, one message that names what to change", done.code == 7 and len(told) == 1 and all(
            word in told[0] for word in (f"--sketch-rows {arguments[3]} with --cols {arguments[5]}", "use smaller ones", reason)) and
            "--chunk-rows" not in told[0] and not done.out.strip(), done)
    many = run(["bench", "sketch", "--cols", 16, "--rows", 5000, "--repeats", 2, "--zeta", 4], ranks=3)
    checks.check("bench sketch on 3 ranks: one line, of the slowest", many.code == 0 and
                 [line["ranks"] for line in lines_of(many)] == [3] and lines_of(many)[0]["floors"] > 0, many)
    wrong = run(["bench", "sketch", "--cols", 16, "--rows", 5000, "--dtype", "f2"], ranks=2)
    checks.check("bench sketch on 2 ranks: nothing to measure is one message", wrong.code == 2 and
                 wrong.err.count("tallsketch: error:") == 1 and wrong.err.count("skipped:") == 1, wrong)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
