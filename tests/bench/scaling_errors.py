#!/usr/bin/python3
"""What the scaling model says of runs that were measured: `inspect --gpus --json` beside the lines of docs/results.

Prints a table a group, predicted and measured seconds and their ratio, and for each group the median and the extremes of the
ratios. docs/scaling.md cites it. Usage: tests/bench/scaling_errors.py [PROGRAM]
"""
import glob
import json
import os
import statistics
import subprocess
import sys

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(SOURCE, "build", "host", "tallsketch")
RESULTS = os.path.join(SOURCE, "docs", "results")
TYPES = {"float32": "f4", "float64": "f8", "float16": "f2"}
PASSES = ("passes: read A", "passes: upload A", "passes: compute", "passes: messages", "passes: rank 0")


def predicted(m, n, dtype, options, gpus="h200", ranks=1, threads=1):
    """The JSON line of a prediction, of one right-hand side."""
    command = [PROGRAM, "inspect", "--kind", "uniform", "--rows", m, "--cols", n, "--dtype", TYPES[dtype], "--gpus", gpus,
               "--ranks", ranks, "--json", *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return json.loads(done.stdout)


def lines_of(*path):
    """The JSON lines of a file of results."""
    with open(os.path.join(RESULTS, *path), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def counted(line, steps):
    """Seconds of those steps that are not hidden."""
    return sum(line["seconds"][step] for step in steps if step in line["counted"])


class Group:
    """Ratios of one kind of measurement."""

    def __init__(self, title):
        self.title, self.ratios = title, []
        print(f"\n{title}\n{'':58} predicted   measured    ratio")

    def add(self, name, model, truth):
        """Seconds of both."""
        self.ratios.append(model / truth)
        print(f"{name:58} {model:9.4g}  {truth:9.4g}  {model / truth:7.2f}")

    def end(self):
        """The line that docs/scaling.md has."""
        ratios = self.ratios
        print(f"== {self.title}: {len(ratios)} lines, ratio {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f})")


def gpu_solves():
    """bench solve: rows that are made on the device, so without reading; steps one by one."""
    routes = {"refine-sketch": ["--preconditioner", "sketch"], "refine-gram": ["--preconditioner", "gram"],
              "sketch-cholesky": ["--method", "sketch-solve", "--check-rows", 0],
              "sketch-qr": ["--method", "sketch-solve", "--check-rows", 0, "--reduced-solver", "qr"]}
    names = ("sketch or Gram matrix", "all-reduce", "factor", "passes", "whole solve without reading")
    seen, rows = set(), []
    for line in lines_of("2026-11-30-h200", "bench_solve.jsonl"):
        key = tuple(line.get(word) for word in ("ranks", "m", "n", "r", "dtype", "route", "d"))
        if line["route"] not in routes or line["r"] != 1 or line["cond"] != 1e4 or key in seen:
            continue
        seen.add(key)
        options = list(routes[line["route"]])
        if line["route"] != "refine-gram":
            options += ["--sketch-rows", line["d"]]
        model = predicted(line["m"], line["n"], line["dtype"], options, ranks=line["ranks"])
        floor = line["floor_ms"] / 1e3
        truth = [line[f"{step}_floors"] * floor for step in ("sketch", "reduce", "factor", "refine")]
        steps = [model["seconds"]["sketch or Gram matrix"], model["seconds"]["all-reduce"],
                 model["seconds"]["factor on rank 0"], counted(model, PASSES)]
        name = f"{line['ranks']} GPU, {line['m']} x {line['n']} {line['dtype']}, {line['route']}, d {line['d']}"
        rows.append((name, line["ranks"], steps + [sum(steps)], truth + [sum(truth)]))
    for ranks in (1, 2):
        for i, what in enumerate(names):
            group = Group(f"bench solve, {ranks} GPU, {what}")
            for name, of_ranks, steps, truth in rows:
                if of_ranks == ranks and truth[i] > 1e-5:
                    group.add(name, steps[i], truth[i])
            if group.ratios:
                group.end()


def scaling_studies():
    """Folders of scaling_study.sh --resident: each number of ranks, the median of its runs."""
    for host in ("2026-11-30-h200-x2", "2026-11-30-h200-x4"):
        folders = sorted(path for path in glob.glob(os.path.join(RESULTS, host, "*")) if os.path.isdir(path))
        runs = {}
        for path in (path for folder in folders for path in sorted(glob.glob(os.path.join(folder, "*.ranks-*.json")))):
            with open(path, encoding="utf-8") as file:
                runs.setdefault(os.path.relpath(path, RESULTS).rsplit(".run-", 1)[0], []).append(json.load(file))
        for ranks in sorted({lines[0]["ranks"] for lines in runs.values()}):
            groups = {what: [] for what in ("all-reduce", "solve without reading")}
            for name, lines in runs.items():
                line = lines[0]
                if line["ranks"] != ranks:
                    continue
                options = ["--method", "sketch-solve", "--check-rows", 0] if line["route"] == "sketch-cholesky" else [
                    "--preconditioner", line["preconditioner"]]
                if line["preconditioner"] != "gram":
                    options += ["--sketch-rows", line["d"]]
                model = predicted(line["m"], line["n"], line["dtype"], options, ranks=ranks)
                steps = [model["seconds"][step] for step in ("sketch or Gram matrix", "all-reduce", "factor on rank 0")]
                truth = [statistics.median(one[f"{step}_floors"] * one["floor_ms"] / 1e3 for one in lines)
                         for step in ("sketch", "reduce", "factor", "refine")]
                groups["all-reduce"].append((name, steps[1], truth[1]))
                groups["solve without reading"].append((name, sum(steps) + counted(model, PASSES), sum(truth)))
            for what, rows in groups.items():
                if what == "all-reduce" and ranks == 1:
                    continue
                group = Group(f"{host}, {ranks} GPU, {what}")
                for row in rows:
                    group.add(*row)
                group.end()


def gpu_kernels():
    """bench sketch (strip engine) and bench passes."""
    group = Group("bench sketch, 1 GPU")
    for line in lines_of("2026-11-30-h200", "bench_sketch.jsonl"):
        usual = (line["family"], line["hash"], line["zeta"], line["dtype"]) == ("sparsestack", "permuted", 4, "float32")
        if line["kernel"] == "strip" and usual and line["n"] >= 64 and line["d"] > line["n"]:
            model = predicted(line["m"], line["n"], "float32", ["--method", "sketch-solve", "--check-rows", 0,
                                                                "--sketch-rows", line["d"]])
            group.add(f"{line['m']} x {line['n']}, d {line['d']}", model["seconds"]["sketch or Gram matrix"],
                      line["complete_ms"] / 1e3)
    group.end()
    group = Group("bench passes, 1 GPU, one right-hand side")
    for line in lines_of("2026-11-30-h200", "bench_passes.jsonl") + lines_of("2026-11-30-h200", "bench_passes_rhs.jsonl"):
        if line["dtype"] in TYPES and line["r"] == 1 and line["n"] >= 64:
            model = predicted(line["m"], line["n"], line["dtype"], ["--preconditioner", "gram"])
            group.add(f"{line['m']} x {line['n']} {line['dtype']}", model["seconds"]["passes: compute"] / model["passes"],
                      line["pass_ms"] / 1e3)
    group.end()


def streamed_solves():
    """Whole solves of files in the page cache, and their totals: streaming_solves.txt."""
    large = (9765632, 1024, "float32")
    shards = (2000000, 1024, "float64")
    cache = ["--file-gb-per-s", 68]  # as bench io reads there
    runs = [("host 1, kept on the GPU", large, [], 1, 1.061),
            ("host 1, from the file for every pass", large, ["--residency", "file"], 1, 3.315),
            ("host 1, sketch-solve", large, ["--method", "sketch-solve"], 1, 1.028),
            ("host 2, kept on the GPU", large, [], 1, 1.180),
            ("host 2, page-locked", large, ["--memory", "16GiB"], 1, 12.767),
            ("host 2, from the file for every pass", large, ["--residency", "file"], 1, 3.452),
            ("host 2, sketch-solve", large, ["--method", "sketch-solve"], 1, 1.165),
            ("host 2, from the file, by a sketch", large, ["--residency", "file", "--preconditioner", "sketch"], 1, 15.342),
            ("host 2, 20 float64 shards, page-locked", shards, ["--memory", "4GiB"], 1, 3.791),
            ("host 2, two GPUs, kept", large, [], 2, 1.698),
            ("host 2, two GPUs, 20 shards from files", shards, ["--residency", "file"], 2, 2.313)]
    for ranks in (1, 2):
        group = Group(f"streaming_solves, {ranks} GPU, total")
        for name, (m, n, dtype), options, of_ranks, truth in runs:
            if of_ranks == ranks:
                group.add(name, predicted(m, n, dtype, [*cache, *options], ranks=ranks)["total_seconds"], truth)
        group.end()


def host_runs():
    """The host backend: sketch, passes, and solves of problems in memory."""
    for threads in (1, 2):
        device = f"{threads} thread{'s' if threads > 1 else ''}"
        group = Group(f"bench sketch, host, {device}")
        for line in lines_of("2026-11-30-host", "bench_sketch.jsonl"):
            if line["device"] == device and (line["family"], line["hash"]) == ("sparsestack", "permuted"):
                model = predicted(line["m"], line["n"], "float32", ["--method", "sketch-solve", "--check-rows", 0,
                                                                    "--sketch-rows", line["d"]], "host", threads=threads)
                group.add(f"{line['m']} x {line['n']}, d {line['d']}", model["seconds"]["sketch or Gram matrix"],
                          line["complete_ms"] / 1e3)
        group.end()
        group = Group(f"bench passes, host, {device}, one right-hand side")
        for line in lines_of("2026-11-30-host", "bench_passes.jsonl"):
            if line["device"] == device and line["dtype"] in TYPES and line["r"] == 1:
                model = predicted(line["m"], line["n"], line["dtype"], ["--preconditioner", "gram"], "host", threads=threads)
                group.add(f"{line['m']} x {line['n']} {line['dtype']}", model["seconds"]["passes: compute"] / model["passes"],
                          line["pass_ms"] / 1e3)
        group.end()
    group = Group("compare_scipy, host, 1 rank x 2 threads, solve without reading")
    for line in lines_of("2026-11-30-host", "compare_scipy.jsonl"):
        if line["who"] == "tallsketch 1 x 2" and line["m"] > 50000 and line.get("preconditioner") == "gram":
            model = predicted(line["m"], line["n"], line["dtype"], ["--preconditioner", "gram"], "host", threads=2)
            group.add(f"{line['m']} x {line['n']}, {line['problem']}", model["total_seconds"] - model["seconds"]["read A"],
                      line["solve_s"])
    group.end()


gpu_solves()
scaling_studies()
gpu_kernels()
streamed_solves()
host_runs()
