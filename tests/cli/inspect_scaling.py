#!/usr/bin/python3
"""inspect --gpus: predictions for clusters that are not here, as tables, as a line a rank count, and as JSON.

Run by CTest as cli.inspect_scaling.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, run, strict_json  # noqa: E402  pylint: disable=C0413

LARGE = ["inspect", "--kind", "uniform", "--rows", "10G", "--cols", 1024]
STEPS = ["page-lock host memory", "read A", "upload A", "sketch or Gram matrix", "all-reduce", "factor on rank 0",
         "passes: read A", "passes: upload A", "passes: compute", "passes: messages", "passes: rank 0"]
TABLE = re.compile(r"^(\S.*?) +(\d\S*) +(beside|\S+ %)$", re.M)


def predicted(options, cwd, ranks=1):
    """The JSON lines of inspect."""
    done = run([*LARGE, "--json", *options], ranks=ranks, cwd=cwd)
    return done, [strict_json(line) for line in done.out.splitlines()] if done.code == 0 else []


def check_table(checks, folder):
    """One number of ranks: steps whose shares add up, efficiencies, a bottleneck with an advice, what takes over."""
    for ranks in (1, 3):
        done = run([*LARGE, "--gpus", "h200", "--ranks", 1024, "--nodes", 128], ranks=ranks, cwd=folder)
        name = f"table, asked by {ranks} ranks"
        if not checks.check(f"{name}: exit 0, nothing on stderr", done.code == 0 and not done.err.strip(), done):
            continue
        table = {step: (float(seconds), share) for step, seconds, share in TABLE.findall(done.out)}
        checks.check(f"{name}: its steps", set(table) - {"total"} == {"read A", "upload A", "sketch or Gram matrix", "all-reduce",
                     "factor on rank 0", "passes: compute", "passes: messages", "passes: rank 0"}, done)
        total = sum(seconds for step, (seconds, share) in table.items() if step != "total" and share != "beside")
        checks.check(f"{name}: counted steps add up", abs(total / table["total"][0] - 1) < 0.01, done)
        # 10^10 / 1024 rows of 4 KiB, eight ranks at 10 GB/s.
        checks.check(f"{name}: reading", abs(table["read A"][0] / (1e10 * 4096 / 1024 * 8 / 10e9) - 1) < 0.01, done)
        for word in ("predicted for: h200, measured", "1024 ranks on 128 nodes", "memory of a rank: 37.", "against 276 ranks, the fewest",
                     "against 8 ranks with", "bottleneck: read A", "shorter by: files striped", "from 276 ranks on: read A",
                     "if files took no time: upload A", "if A were in its place already: ", "of 16 to 16384 columns: passes: messages up to",
                     "note: rows that are made count", "note: start-up"):
            checks.check(f"{name}: has '{word}' once", done.out.count(word) == 1, done)
    checks.check("nothing is written", os.listdir(folder) == [], os.listdir(folder))


def check_takeovers(checks, folder):
    """Where a step takes over, the prediction for that many ranks says so, and for one less it does not."""
    options = ["--gpus", "h200", "--preconditioner", "sketch", "--file-gb-per-s", 1000000]
    done = run([*LARGE[:-1], 256, *options, "--ranks", 128], cwd=folder)
    told = re.search(r"from (\d+) ranks on: (.*) up to (\d+), then (.*)$", done.out, re.M)
    if not checks.check("a step takes over", done.code == 0 and told, done):
        return
    last = int(told[3])
    again = run([*LARGE[:-1], 256, *options, "--ranks", f"{told[1]},{last},{last + 1}", "--json"], cwd=folder)
    lines = [strict_json(line) for line in again.out.splitlines()]
    checks.check("it takes over there", [line["bottleneck"] for line in lines] == [told[2], told[2], told[4]], f"{done}{again}")


def check_columns(checks, folder):
    """Columns are looked at while a sketch of 8n rows is shorter than A."""
    def told(rows):
        done = run(["inspect", "--kind", "uniform", "--rows", rows, "--cols", 64, "--gpus", "h200", "--ranks", 4,
                    "--preconditioner", "sketch", "--oversample", 8], cwd=folder)
        checks.check(f"{rows} rows: exit 0", done.code == 0, done)
        return done, re.findall(r" of 16 to (\d+) columns: ", done.out)

    done, most = told(40000)
    checks.check("columns end where d reaches m", most == ["5000"], done)
    done, most = told(100)
    checks.check("no columns where 16 are too many", most == [] and "columns: " not in done.out, done)


def check_other_choice(checks, folder):
    """Files faster than solve supposes can decide for another preconditioner, which solve must be asked for."""
    wide = ["inspect", "--kind", "uniform", "--rows", "10M", "--cols", 8192, "--gpus", "h200"]
    note = re.compile(r"note: on (\d+) ranks solve, .*: give it --preconditioner (\w+)$", re.M)
    for ranks in ("8", "64,8"):
        done = run([*wide, "--ranks", ranks, "--file-gb-per-s", 400], cwd=folder)
        told = note.findall(done.out)
        checks.check(f"--ranks {ranks}: a note where solve would take another", told == [("8", "sketch")], done)
    done = run([*wide, "--ranks", 8, "--file-gb-per-s", 400, "--preconditioner", "sketch"], cwd=folder)
    checks.check("no note where it was asked for", done.code == 0 and not note.search(done.out), done)


def check_scan(checks, folder):
    """A list of ranks: a line each, in its order."""
    ranks = [4, 64, 512, 4096, 10000]
    done = run([*LARGE, "--gpus", "h200", "--ranks", ",".join(map(str, ranks))], cwd=folder)
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(device|file) .* (\d+ %) of (\d+)  (\S.*)$", done.out, re.M)
    checks.check("scan: a line for every number of ranks", done.code == 0 and [int(row[0]) for row in rows] == ranks, done)
    checks.check("scan: nodes of eight", [int(row[1]) for row in rows] == [1, 8, 64, 512, 1250], done)
    checks.check("scan: A stays where it fits", [row[3] for row in rows] == ["file", "file", "device", "device", "device"], done)
    checks.check("scan: efficiency of its like", [row[5] for row in rows] == ["1", "1", "276", "276", "276"], done)


def check_misfits(checks, folder):
    """A number of ranks that does not fit is a line that says why; the others go on; all misfits are an error."""
    asked = [*LARGE, "--gpus", "h200", "--residency", "device"]
    for procs in (1, 3):
        done = run([*asked, "--ranks", "2,300,4,600"], ranks=procs, cwd=folder)
        lines = re.findall(r"^ +(\d+) +(\d+) +(does not fit: this needs \S+ TiB on a rank, but 139 GiB may be used, of what is free$|\d+ +device)", done.out, re.M)
        checks.check(f"misfits, asked by {procs} ranks: a line for every number of ranks, in order", done.code == 0 and [
            (int(ranks), "does not fit" in place) for ranks, _, place in lines] == [(2, True), (300, False), (4, True), (600, False)], done)
        checks.check(f"misfits, asked by {procs} ranks: the largest, with its parts and what to change", len(re.findall(
            r"^on 4 ranks this needs 9\.3\S* TiB on a rank \(.*rows of A 9\.3\S* TiB\), but .*; use --residency file or more ranks or more memory for a rank$", done.out, re.M)) == 1 and
            "[rank" not in done.out and not done.err.strip(), done)
        done = run([*asked, "--ranks", "2,300", "--json"], ranks=procs, cwd=folder)
        values = [strict_json(line) for line in done.out.splitlines()]
        checks.check(f"misfits, asked by {procs} ranks: JSON", done.code == 0 and [(v["ranks"], v["fits"]) for v in values] == [
            (2, False), (300, True)] and "139 GiB may be used, of what is free" in values[0]["reason"] and "[rank" not in values[0]["reason"], done)


def check_in_files(checks, folder):
    """A that stays in files has no other place; one that stays in memory on more ranks has, from there on."""
    told = run([*LARGE, "--gpus", "h200", "--ranks", 64], cwd=folder)
    checks.check("in files: its place begins where it fits", told.code == 0 and re.search(
        r"^  if A were in its place already, from 276 ranks on: (?!.*read A)", told.out, re.M), told)
    checks.check("in files: columns, too", "A in files, again for every pass, of 16 to" in told.out, told)
    done = run([*LARGE, "--gpus", "h200", "--ranks", 64, "--residency", "file"], cwd=folder)
    checks.check("asked to stay in files: no other place", done.code == 0 and "place already" not in done.out, done)
    checks.check("asked to stay in files: told how to leave them", "shorter by: --residency auto" in done.out and
                 "more ranks, so that" not in done.out, done)
    checks.check("made up, by the Gram matrix, without --memory: none of it is advised", not [word for word in (
        "--preconditioner gram", "--memory") if word in told.out], told)
    halves = run([*LARGE, "--gpus", "h200", "--ranks", 64, "--dtype", "f2"], cwd=folder)
    checks.check("float16: narrower data are not advised", halves.code == 0 and "stored as" not in halves.out and "stored as float16" in told.out,
                 halves)
    done = run([*LARGE, "--gpus", "h200", "--ranks", 64, "--memory", "100GiB"], cwd=folder)
    checks.check("--memory given: more of it is advised", done.code == 0 and "more --memory" in done.out, done)


def check_nodes(checks, folder):
    """--nodes that the ranks do not fill are told; so is nothing where they do."""
    note = re.compile(r"^note: 10 ranks on --nodes 6 are 2 a node, which fill 5 nodes: predicted for 5$", re.M)
    for ranks in ("10", "10,4"):
        done = run([*LARGE, "--gpus", "h200", "--ranks", ranks, "--nodes", 6], cwd=folder)
        checks.check(f"--ranks {ranks} --nodes 6: a note", done.code == 0 and note.search(done.out), done)
    for nodes in (5, 1, 10):
        done = run([*LARGE, "--gpus", "h200", "--ranks", 10, "--nodes", nodes], cwd=folder)
        checks.check(f"--ranks 10 --nodes {nodes}: no note", done.code == 0 and "--nodes" not in done.out, done)


def check_threads(checks, folder):
    """Threads of a rank of the host backend: as asked for, more than here are."""
    host = [*LARGE, "--gpus", "host", "--ranks", 64, "--preconditioner", "gram"]
    seconds = {}
    for threads in (1, 64):
        done = run([*host, "--threads", threads, "--json"], cwd=folder)
        line = strict_json(done.out) if done.code == 0 else {}
        checks.check(f"--threads {threads}: JSON", line.get("threads") == threads, done)
        seconds[threads] = line["seconds"]["sketch or Gram matrix"]
    checks.check("64 threads: a faster Gram matrix", seconds[1] > 10 * seconds[64], seconds)
    done = run([*host, "--threads", 64], cwd=folder)
    checks.check("--threads 64: said, and whose memory it is", re.search(
        r"^predicted for: host backend, 64 threads a rank, \S+ \S+ of memory a node, as is free here;", done.out, re.M), done)
    done = run([*host, "--memory", "1GiB"], cwd=folder, environment={"OMP_NUM_THREADS": "1"})
    checks.check("without --threads those that are here, with --memory no other", "predicted for: host backend, 1 thread a rank; a node" in done.out,
                 done)


def check_json(checks, folder):
    """JSON: all steps, and what follows from other options."""
    done, lines = predicted(["--gpus", "h200", "--ranks", "1,512,10000"], folder, ranks=2)
    if not checks.check("JSON: a line each, nothing else", len(lines) == 3 and not done.err.strip(), done):
        return
    for line in lines:
        name = f"JSON, {line['ranks']} ranks"
        checks.check(f"{name}: all steps", list(line["seconds"]) == STEPS, line)
        checks.check(f"{name}: counted ones are the total", abs(sum(line["seconds"][step] for step in line["counted"]) /
                     line["total_seconds"] - 1) < 1e-9, line)
        checks.check(f"{name}: efficiencies up to 1", 0 < line["strong_efficiency"] <= 1 + 1e-9 and
                     0 < line["weak_efficiency"] <= 1 + 1e-9, line)
    checks.check("JSON: one rank reduces nothing", lines[0]["seconds"]["all-reduce"] == 0 and lines[2]["seconds"]["all-reduce"] > 0, lines)
    checks.check("JSON: rank 0 is as slow on any number of ranks", len({line["seconds"]["factor on rank 0"] for line in lines}) == 1, lines)
    base = lines[1]

    def differs(options, step, lower):
        _, other = predicted(["--gpus", "h200", "--ranks", 512, *options], folder)
        if checks.check(f"JSON {options}: a line", len(other) == 1, other):
            ratio = other[0]["seconds"][step] / base["seconds"][step] if base["seconds"][step] else 9
            checks.check(f"JSON {options}: {step}", ratio < 0.9 if lower else ratio > 1.1, (ratio, other, base))

    differs(["--net-gb-per-s", 400], "all-reduce", True)
    differs(["--net-latency-us", 50], "passes: messages", False)
    differs(["--file-gb-per-s", 40], "read A", True)
    differs(["--all-files-gb-per-s", 100], "read A", False)
    differs(["--nodes", 512], "read A", True)
    differs(["--preconditioner", "sketch", "--reduced-solver", "qr"], "factor on rank 0", False)
    differs(["--residency", "file"], "passes: read A", False)
    _, halves = predicted(["--gpus", "h200", "--ranks", 512, "--method", "sketch-solve", "--reduce", "fp16"], folder)
    _, floats = predicted(["--gpus", "h200", "--ranks", 512, "--method", "sketch-solve"], folder)
    checks.check("JSON: halves are reduced faster", halves[0]["seconds"]["all-reduce"] < floats[0]["seconds"]["all-reduce"] and
                 floats[0]["passes"] == 0, (halves, floats))
    for gpu in ("h100", "a100"):
        _, slower = predicted(["--gpus", gpu, "--ranks", 1024], folder)
        checks.check(f"{gpu}: slower passes", slower and slower[0]["seconds"]["passes: compute"] > base["seconds"]["passes: compute"] / 2 and
                     slower[0]["residency"] == "device", slower)


def check_few_rows(checks, folder):
    """Ranks without rows are named; the host backend is a machine, too."""
    small = ["inspect", "--kind", "uniform", "--rows", "40k", "--cols", 64, "--ranks", 10000]
    for gpus in ("h200", "host"):
        done = run([*small, "--gpus", gpus], cwd=folder)
        idle = re.findall(r"warning: (\d+) of 10000 ranks have no rows: A has (\d+) batches", done.out)
        checks.check(f"{gpus}: idle ranks are named", done.code == 0 and len(idle) == 1 and sum(map(int, idle[0])) == 10000, done)
    checks.check("host: its threads", re.search(r"predicted for: host backend, \d+ threads? a rank", done.out), done)
    checks.check("host: nothing is uploaded", "upload" not in done.out.split("longest")[0], done)
    none = run([*LARGE, "--gpus", "h200", "--ranks", 2, "--residency", "device"], cwd=folder)
    checks.check("more than a GPU holds: code 7 and what to change", none.code == 7 and "more ranks" in none.err, none)


def main():
    """All checks in one folder, which stays empty."""
    checks = Checks()
    with Folder() as folder:
        for check in (check_table, check_takeovers, check_columns, check_other_choice, check_scan, check_misfits, check_in_files,
                      check_nodes, check_threads, check_json, check_few_rows):
            check(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
