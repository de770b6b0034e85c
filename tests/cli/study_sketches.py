#!/usr/bin/python3
"""study geometry and study coherence on small bases and problems: what papers F and B and theory say of sketches, the same on several
ranks; options that are refused, output that cannot be written.

Run by CTest as cli.study_sketches. Seeds are fixed, so all figures but times are the same at every run, up to rounding.
"""
import csv
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import script_runs  # noqa: E402  pylint: disable=wrong-import-position
from script_runs import Checks, Folder, in_parallel, run  # noqa: E402  pylint: disable=wrong-import-position

HOST = ["--backend", "host"]
GEOMETRY = ["study", "geometry", *HOST, "--rows", 4096, "--cols", 64]
COHERENCE = ["study", "coherence", *HOST, "--rows", 2048, "--cols", 32, "--rank", 8, "--block-rows", 16, "--repeats", 1]
TIMES = ("time_ms", "map_ms", "floor_ms", "pareto")


def lines_of(done):
    """The CSV lines on standard output."""
    return list(csv.DictReader(done.out.splitlines()))


def number(line, name):
    """A figure; NaN where there is none."""
    return float(line[name]) if line[name] else math.nan


def check_precision(checks, folder):
    """FP16 distorts as FP32 does: paper F has at most 7.8e-4 in the median of a case and 0.0049 in a single sketch. Its distortion is
    that of lengths, max |sigma - 1| (docs/study.md); squares, max |sigma^2 - 1|, keep to the latter figure too."""
    done = run([*GEOMETRY, "--sketch", "sparsestack", "--precision", "fp16,bf16,fp32", "--head", "random", "--coherence", "0,0.5,1",
                "--zeta", "1,4", "--hash", "independent", "--oversample", 2, "--quiet"], cwd=folder)
    lines = lines_of(done)
    checks.check("fp16: every case", done.code == 0 and len(lines) == 3 * 2 * 3, done)
    for line in lines:
        key = (line["coherence"], line["zeta"], line["precision"])
        if line["precision"] == "fp32":
            checks.check(f"fp16 {key}: fp32 beside nothing", line["minus_fp32_median"] == "", line)
            continue
        median, largest = abs(number(line, "length_minus_fp32_median")), number(line, "length_minus_fp32_largest")
        # Coordinate rows are sums of powers of two, which 16 bits hold; elsewhere something is rounded.
        checks.check(f"fp16 {key}: differs where numbers are rounded", (largest > 0) == (line["coherence"] != "1"), line)
        if line["precision"] == "fp16":
            checks.check(f"fp16 {key}: within the paper's figures", median <= 7.8e-4 and largest <= 0.0049 and
                         abs(number(line, "minus_fp32_median")) <= number(line, "minus_fp32_largest") <= 0.0049, line)
        elif line["coherence"] == "0":
            checks.check(f"bf16 {key}: farther from fp32 than fp16 is", largest > 4 * max(
                number(x, "length_minus_fp32_largest") for x in lines
                if x["precision"] == "fp16" and x["coherence"] == "0" and x["zeta"] == line["zeta"]), line)


def check_how_made(checks, folder):
    """A geometry line says on how many ranks, of what data and by which conversion it was made."""
    done = run(["study", "geometry", *HOST, "--rows", 256, "--cols", 8, "--sketch", "sparsestack,gaussian", "--precision", "fp16", "--coherence",
                0, "--oversample", 4, "--zeta", 4, "--hash", "permuted", "--seeds", 2, "--data-seed", 7, "--scaling", "none", "--quiet"],
               ranks=2, cwd=folder)
    made = {x["family"]: tuple(x[name] for name in ("ranks", "data_seed", "scaling", "rounding")) for x in lines_of(done)}
    checks.check("geometry: how it was made", made == {"sparsestack": ("2", "7", "none", "nearest"), "gaussian": ("2", "7", "", "")} and
                 all("thread" in x["device"] for x in lines_of(done)), done)


def check_families(checks, folder):
    """Coordinate rows: who loses rank; Gaussian lines beside the others; coherences of blocks within their bounds."""
    done = run([*GEOMETRY, "--precision", "fp32", "--head", "first,random", "--coherence", "0,1", "--oversample", 2, "--block-rows", 16,
                "--kappa", "1,2,4"], cwd=folder)
    lines = lines_of(done)
    checks.check("families: every case", done.code == 0 and len(lines) == 2 * 2 * (2 * 4 + 2 * 3 * 2 + 1) and
                 len(done.err.splitlines()) == len(lines) + 1, done)
    for line in lines:
        key = [line[x] for x in ("head", "coherence", "family", "hash", "zeta", "kappa", "input_blocks")]
        lost, coordinate = int(line["rank_losses"]), line["coherence"] == "1"
        if line["family"] == "gaussian":
            edge = (1 + math.sqrt(1 / 2)) ** 2 - 1
            checks.check(f"families {key}: a dense sketch is below its edge, and near it", lost == 0 and
                         0.85 * edge < number(line, "distortion_median") < edge and line["hash"] == line["zeta"] == "" and
                         line["distortion_median"] == line["gaussian_distortion_median"], line)
        if line["family"] == "sparsestack" and line["hash"] == "independent" and coordinate:
            expected = {"1": lost == 10, "2": 0 < lost < 10}.get(line["zeta"], lost == 0)
            checks.check(f"families {key}: rank on coordinate rows (paper F, V-C)", expected, line)
        if line["family"] == "sparsestack" and not coordinate:
            checks.check(f"families {key}: as good as dense", lost == 0 and number(line, "distortion_median") <
                         1.15 * number(line, "gaussian_distortion_median"), line)
        if line["family"] == "blockperm":
            kappa, block = int(line["kappa"]), number(line, "block_coherence")
            least, most = number(line, "neighbourhood_coherence_least"), number(line, "neighbourhood_coherence_largest")
            checks.check(f"families {key}: mu_blk / kappa <= mu_nbr <= mu_blk (paper B, 6.3)", block / kappa * (1 - 1e-5) <= least <= most <=
                         block * (1 + 1e-5), line)
            # M = 8 blocks; with the head first, a contiguous block of 512 rows holds all 64 of its rows.
            if line["head"] == "first" and coordinate:
                checks.check(f"families {key}: coordinate rows are as coherent as can be", abs(block - 8) < 1e-5 and
                             abs(least - 8 / kappa) < 1e-5, line)
                by_counting = line["input_blocks"] == "contiguous" and kappa * 16 < 64
                checks.check(f"families {key}: rank is lost where kappa B_r < n", not by_counting or lost == 10, line)


def sketch_of(line):
    """What tells the sketches of a study apart."""
    return tuple(line[x] for x in ("kind", "family", "hash", "d", "zeta", "kappa", "block_nnz", "block_rows", "input_blocks"))


def check_front(checks, lines):
    """The Pareto flags by their definition; the margin is the rounding of the printed figures."""
    margin = 1e-5
    for kind, task in sorted({(x["kind"], x["task"]) for x in lines}):
        points = [(number(x, "time_ms"), number(x, "error_median"), x) for x in lines if (x["kind"], x["task"]) == (kind, task)]
        timed = [point for point in points if not any(math.isnan(figure) for figure in point[:2]) and int(point[2]["failures"]) == 0]
        flags = 0
        for time, error, line in points:
            flags += line["pareto"] == "yes"
            if math.isnan(time) or math.isnan(error) or int(line["failures"]) > 0:
                checks.check(f"front {kind} {task}: without figures, or with failures, no place", line["pareto"] == "no", line)
            elif line["pareto"] == "yes":
                checks.check(f"front {kind} {task}: nobody beats it", not any(
                    t < time * (1 - margin) and e < error - margin * error for t, e, _ in timed), line)
            else:
                checks.check(f"front {kind} {task}: somebody beats it", any(
                    t <= time * (1 + margin) and e <= error * (1 + margin) and other is not line for t, e, other in timed), line)
        checks.check(f"front {kind} {task}: there is one", 1 <= flags < len(timed), flags)


def check_tasks(checks, folder):
    """Paper B's tasks over kappa and s, on the data kinds: bounds, the excess that theory expects, who fails, the front."""
    done = run([*COHERENCE, "--oversample", "2,8"], cwd=folder)
    lines = lines_of(done)
    # Of each d: 4 SparseStack, 3 kappa x 3 s x 2 BlockPerm (d = 64 has 4 blocks), 9 FlashBlockRow, 1 dense.
    checks.check("tasks: every sketch and task", done.code == 0 and len(lines) == 4 * 4 * 2 * (4 + 18 + 9 + 1) and
                 len({(sketch_of(x), x["task"]) for x in lines}) == len(lines), done)
    table = [line for line in done.err.splitlines() if not line.startswith("skipped")]
    checks.check("tasks: a table", len(table) == len(lines) + 1, done)
    for line in lines:
        name = f"tasks {sketch_of(line)} {line['task']}"
        failed = int(line["failures"])
        figures = [number(line, f"error_{x}") for x in ("least", "median", "largest")]
        checks.check(f"{name}: figures in order", (failed == 10) == math.isnan(figures[1]) and
                     (failed == 10 or 0 <= figures[0] <= figures[1] <= figures[2]), line)
        checks.check(f"{name}: only solving fails", failed == 0 or line["task"] == "solve", line)
        if line["task"] in ("ridge", "solve") and failed < 10:
            checks.check(f"{name}: no residual is below the least", figures[0] > 0.999999 * number(line, "error_unsketched"), line)
        checks.check(f"{name}: FlashBlockRow is not timed here, all else is", (line["time_ms"] == "") == (line["family"] == "flashblockrow"),
                     line)
    find = {(*sketch_of(x), x["task"]): x for x in lines}

    def figure(kind, family, ratio, zeta, task, blocks=("", "", "", ""), name="error_median"):
        d = {"flashblockrow": {2: 128, 8: 256}, "sparsestack": {2: {8: 128}.get(zeta, 64), 8: 256}}.get(family, {2: 64, 8: 256})[ratio]
        hashed = "permuted" if family in ("sparsestack", "blockperm") else ""
        return number(find[(kind, family, hashed, str(d), str(zeta), *map(str, blocks), task)], name)

    for kind in ("gaussian", "lowrank", "coherent"):
        for family, zeta, blocks in (("gaussian", "", ("",) * 4), ("sparsestack", 4, ("",) * 4),
                                     ("blockperm", 8, (4, 2, 16, "interleaved"))):
            name = f"tasks {kind} {family}"
            excess = figure(kind, family, 8, zeta, "solve", blocks) / figure(kind, family, 8, zeta, "solve", blocks, "error_unsketched") - 1
            # Of one seed 0.069 sqrt(2 / n) = 25 % (chi squared, n degrees of freedom), of the median of ten a third of it.
            checks.check(f"{name}: excess of solve near sqrt(d / (d - n)) - 1", abs(excess / (math.sqrt(8 / 7) - 1) - 1) < 0.35, excess)
            edge = (1 + math.sqrt(1 / 8)) ** 2 - 1
            ose = figure(kind, family, 8, zeta, "ose", blocks)
            checks.check(f"{name}: ose near the dense sketch's edge", 0.7 * edge < ose < 1.25 * edge, ose)
            gram, wider = figure(kind, family, 2, zeta, "gram", blocks), figure(kind, family, 8, zeta, "gram", blocks)
            checks.check(f"{name}: four times d halve the Gram error", 1.4 < gram / wider < 2.9, (gram, wider))
    # Rows of a unit matrix, all in one contiguous block: kappa of 16 blocks of 16 rows take them.
    of_kappa = [figure("coordinate", "blockperm", 8, 2 * kappa, "ose", (kappa, 2, 16, "contiguous")) for kappa in (1, 2, 4)]
    checks.check("tasks coordinate: contiguous blocks embed better with every kappa", of_kappa[0] > 1.3 * of_kappa[1] > 1.69 * of_kappa[2],
                 of_kappa)
    spread = figure("coordinate", "blockperm", 8, 8, "ose", (4, 2, 16, "interleaved"))
    checks.check("tasks coordinate: interleaved blocks are better still", spread < 0.8 * of_kappa[2], (spread, of_kappa))
    failed = figure("coordinate", "blockperm", 8, 2, "solve", (1, 2, 16, "contiguous"), "failures")
    checks.check("tasks coordinate: kappa B_r < n loses rank, and so x, with every seed", failed == 10, failed)
    for kind in ("coherent", "coordinate"):
        sampled = min(figure(kind, "flashblockrow", 8, "", "ose", (kappa, s, 128, "")) for kappa in (1, 2, 4) for s in (1, 2, 4))
        hashed = figure(kind, "sparsestack", 8, 4, "ose")
        checks.check(f"tasks {kind}: sampled rows are no embedding", sampled > 0.999 > hashed, (sampled, hashed))
    for line in lines:
        if line["family"] == "blockperm":
            block, kappa = number(line, "block_coherence"), int(line["kappa"])
            near = [number(line, f"neighbourhood_coherence_{x}") for x in ("least", "median", "largest")]
            checks.check(f"tasks {sketch_of(line)}: coherences within bounds", block / kappa * (1 - 1e-5) <= near[0] <= near[1] <= near[2] <=
                         block * (1 + 1e-5), line)
    check_front(checks, lines)


def check_lone_survivors(checks, folder):
    """A sketch that solves some seeds only is on no front, even where nobody else is; one that solves all is."""
    command = ["study", "coherence", *HOST, "--rows", 2048, "--cols", 32, "--repeats", 1, "--kind", "coordinate", "--task", "solve", "--sketch",
               "sparsestack", "--oversample", 2, "--no-coherence", "--quiet"]
    done = run([*command, "--zeta", 2], cwd=folder)
    lines = lines_of(done)
    checks.check("survivors: some seeds fail, not all, and the line is on no front", len(lines) == 1 and 0 < int(lines[0]["failures"]) < 10 and
                 lines[0]["error_median"] and lines[0]["time_ms"] and lines[0]["pareto"] == "no", done)
    done = run([*command, "--zeta", "2,4"], cwd=folder)
    front = {x["zeta"]: (x["failures"], x["pareto"]) for x in lines_of(done)}
    checks.check("survivors: who keeps every seed is the front", front["2"][1] == "no" and front["4"] == ("0", "yes"), done)


def check_what_is_left(checks, folder):
    """Out of memory after some lines: the file has the lines, and it is said that more are missing; no file without lines."""
    path = os.path.join(folder, "part.csv")
    command = ["study", "coherence", *HOST, "--rows", 300, "--cols", 16, "--rank", 4, "--repeats", 1, "--oversample", 4, "--sketch", "sparsestack",
               "--zeta", 4, "--seeds", 2, "--kind", "gaussian,lowrank", "--quiet", "-o", path]
    for entry, kinds in ((2, {"gaussian"}), (1, set())):
        done = run(command, ranks=2, cwd=folder, environment={"TALLSKETCH_FAULT": f"1:make the problem#{entry}:oom"})
        lines = []
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                lines = list(csv.DictReader(file))
            os.remove(path)
        checks.check(f"left at problem {entry}: code 7, one message, the lines so far", done.code == 7 and
                     done.err.count("tallsketch: error:") == 1 and {x["kind"] for x in lines} == kinds and len(lines) == 4 * len(kinds) and
                     done.err.count("part.csv is incomplete") == len(kinds) and not os.listdir(folder), done)


def check_ranks(checks, folder):
    """One, two and three ranks: the same lines, up to times and the order of FP32 sums; a file instead of standard output."""
    command = [*COHERENCE, "--oversample", 4, "--kind", "gaussian,coordinate", "--kappa", 2, "--block-nnz", 2, "--zeta", "4", "--seeds", 3,
               "--quiet"]
    alone = run(command, cwd=folder)
    lines = lines_of(alone)
    checks.check("ranks: one", alone.code == 0 and len(lines) == 2 * 4 * (1 + 2 + 1 + 1) and not alone.err, alone)
    for ranks in (2, 3):
        path = os.path.join(folder, f"{ranks}.csv")
        done = run([*command, "-o", path], ranks=ranks, cwd=folder)
        checks.check(f"ranks: {ranks}, nothing printed", done.code == 0 and not done.out, done)
        with open(path, encoding="ascii") as file:
            shared = list(csv.DictReader(file))
        checks.check(f"ranks: {ranks} as many lines", len(shared) == len(lines), done)
        for one, other in zip(lines, shared):
            for key in one:
                if key.startswith("error_") and one[key]:
                    same = abs(float(one[key]) - float(other[key])) <= 1e-5 * (1 + float(one[key]))
                else:
                    same = key in TIMES or one[key] == other[key]
                checks.check(f"ranks: {ranks} agree on {key}", same, (one, other))
    short = run([*COHERENCE, "--sketch-rows", 16, "--kind", "gaussian", "--sketch", "sparsestack,gaussian", "--zeta", 4, "--task",
                 "gram,ridge,ose,solve", "--quiet", "--no-coherence"], cwd=folder)
    lines = lines_of(short)
    checks.check("d < n: all but solve", short.code == 0 and [(x["task"], x["failures"]) for x in lines] == 2 * [
        ("gram", "0"), ("ridge", "0"), ("ose", "0"), ("solve", "10")] and all(
            number(x, "error_least") >= 1 for x in lines if x["task"] == "ose"), short)


def check_errors(checks, folder):
    """Options of study coherence that are refused (2), rows beyond memory (7), output that cannot be written (9): one message each."""
    refused = {"--kind": "hilbert", "--task": "svd", "--sketch": "srht", "--kappa": "0", "--zeta": "0", "--oversample": "1",
               "--sketch-rows": "0", "--ridge": "0", "--seeds": "0", "--repeats": "0", "--noise": "-1", "--rank": "0", "--kernel": "gaussian",
               "--rows": "0", "--block-rows": "65537", "--colour": "red", "--data-seed": "-1"}
    small = ["--rows", 300, "--cols", 32]
    cases = [(2, option, [f"{option}={value}"], 1) for option, value in refused.items()]
    cases += [(2, "--rank 40", [*small, "--rank", 40, "--kind", "lowrank"], 3),
              (2, "more rows than columns", ["--rows", 32, "--cols", 32, "--kind", "gaussian", "--quiet"], 2),
              (2, "--kernel", [*small, "--kernel", "flash", "--sketch", "blockperm", "--kappa", 2, "--quiet"], 2),
              (2, "nothing to study", [*small, "--sketch", "blockperm", "--kappa", 99], 3),
              (7, "--rows 1000000000 --cols 2048 need 1.64e+04 GB", ["--rows", "1G", "--cols", 2048, "--quiet"], 2),
              (9, "No such file", [*small, "-o", os.path.join(folder, "none", "x.csv")], 2)]

    def judge(case):
        return case, run(["study", "coherence", *HOST, *case[2]], ranks=case[3], cwd=folder)

    for (code, word, arguments, _), done in in_parallel(judge, cases):
        checks.check(f"errors {arguments}: exit {code}, one message that names it", done.code == code and word in done.err and
                     done.err.count("tallsketch: error:") == 1 and not done.out, done)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = run([*COHERENCE, "--kind", "gaussian", "--sketch", "sparsestack", "--seeds", 1, "--quiet"], cwd=folder, stdout=full)
        checks.check("errors: a full disk is exit 9", done.code == 9 and "standard output" in done.err, done)


def main():
    """All."""
    script_runs.LIMIT_SECONDS = 240  # studies compute, and machines are shared
    checks = Checks()
    with Folder() as folder:
        for check in (check_precision, check_how_made, check_families, check_tasks, check_lone_survivors, check_what_is_left, check_ranks, check_errors):
            check(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
