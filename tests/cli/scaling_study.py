#!/usr/bin/python3
"""The scaling study without Slurm: scaling_study.sh on 1 and 2 ranks by mpirun, and plot_scaling.py on made-up results whose
speed-ups are known.

Run by CTest as cli.scaling_study. Skipped (after everything else) where matplotlib is missing and no picture could be drawn.
"""
import importlib.util
import json
import os
import shutil
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import MPIEXEC, PROGRAM, SOURCE, Checks, Folder, run_command, strict_json  # noqa: E402  pylint: disable=C0413

STUDY = os.path.join(SOURCE, "slurm", "scaling_study.sh")
PLOT = [sys.executable, os.path.join(SOURCE, "slurm", "plot_scaling.py")]
HAVE_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
PICTURES = [f"{name}.{kind}" for name in ("efficiency", "phases", "speedup") for kind in ("png", "svg")]


def study(folder, *arguments, **changes):
    """scaling_study.sh, in a folder, with this build's program and mpirun; changes of the environment."""
    settings = {"TALLSKETCH": PROGRAM, "OMP_NUM_THREADS": "1", **changes}
    return run_command([STUDY, "--launcher", f"{MPIEXEC} -n", *map(str, arguments)], cwd=folder, environment=settings)


def plot(*arguments):
    """plot_scaling.py."""
    return run_command([*PLOT, *map(str, arguments)])


def results(folder):
    """Names of the results in a folder, sorted as a shell would."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".json"))


def two_processors(folder):
    """A folder with a program `nproc` that says 2."""
    path = os.path.join(folder, "bin")
    os.makedirs(path)
    write_program(os.path.join(path, "nproc"), "echo 2")
    return path


def write_program(path, line):
    """A shell script of one line."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/bash\n{line}\n")
    os.chmod(path, 0o755)


def job(folder, line, **settings):
    """Standard output of a line of shell after job.sh, of slurm/ in a folder, was read."""
    script = f"set -euo pipefail; . '{folder}/slurm/job.sh'; {line}"
    return run_command(["bash", "-c", script], environment=settings)


def check_job(checks, folder):
    """What job.sh finds out before it runs anything: cores of unlike nodes, the program of an installation, a failed set-up."""
    source = os.path.dirname(os.path.dirname(STUDY))
    for cores, least in (("64", 64), ("64(x4)", 64), ("64(x4),32", 32), ("8,16(x2),12", 8), ("9,10", 9)):
        done = job(source, "least_cores", SLURM_JOB_CPUS_PER_NODE=cores)
        checks.check(f"cores: {least} of {cores}", done.out.strip() == str(least), done)
    for name, value in (("GPUS_PER_NODE", "x"), ("GPUS_PER_NODE", "-1"), ("GPUS_PER_NODE", "08"), ("RANKS_PER_NODE", "0"),
                        ("RANKS_PER_NODE", "2.5"), ("CPUS_PER_TASK", "0"), ("CPUS_PER_TASK", "a[0]"), ("BACKEND", "gpu")):
        done = job(source, "read_site", **{f"TALLSKETCH_{name}": value})
        checks.check(f"settings: {name}={value} is refused", done.code == 2 and len(done.err.splitlines()) == 1 and
                     f"TALLSKETCH_{name} '{value}'" in done.err, done)
    for gpus, site in (("0", "2 host"), ("8", "8 cuda")):
        done = job(source, 'read_site; echo "$TALLSKETCH_RANKS_PER_NODE $TALLSKETCH_BACKEND"', TALLSKETCH=PROGRAM, TALLSKETCH_GPUS_PER_NODE=gpus)
        checks.check(f"settings: {gpus} GPUs a node", done.out.strip() == site, done)
    for ranks, code, words in ((8, 0, ""), (9, 2, "9 ranks, 4 a node, need 3 nodes, and this job has 2"), (1, 0, "")):
        done = job(source, f"read_site; has_room {ranks}", TALLSKETCH=PROGRAM, TALLSKETCH_RANKS_PER_NODE="4", SLURM_JOB_NUM_NODES="2",
                   SLURM_JOB_CPUS_PER_NODE="16(x2)")
        checks.check(f"room for {ranks} ranks on 2 nodes of 4", done.code == code and words in done.err and bool(done.err) == bool(code), done)
    shared = os.path.join(folder, "prefix", "share", "tallsketch")
    shutil.copytree(os.path.join(source, "slurm"), os.path.join(shared, "slurm"))
    program = os.path.join(folder, "prefix", "bin", "tallsketch")
    write_program(program, ":")
    done = job(shared, 'read_site; echo "$TALLSKETCH"', TALLSKETCH="")
    checks.check("program: that of the installation", done.out.strip() == program, done)
    site = os.path.join(shared, "slurm", "site.env")
    with open(site, encoding="utf-8") as file:
        text = file.read()
    with open(site, "w", encoding="utf-8") as file:  # as a user would: only the mark of the comment goes
        file.write(text.replace("#module ", "module "))
    for failing, code in (("purge", 2), ("load", 2), ("none", 0)):
        done = job(shared, f"module() {{ [[ $1 != {failing} ]]; }}; read_site", TALLSKETCH=program)
        checks.check(f"modules: 'module {failing}' fails", done.code == code and ("tallsketch_setup" in done.err) == (code == 2), done)


def check_study(checks, folder):
    """One file a run, named so that they sort; what is there is not measured again; failures are named and kept out."""
    small = ["--ranks", "1 2", "--rows", "20k", "--rows-per-rank", "10k", "--cols", 8, "--repeats", 2]
    out = os.path.join(folder, "refine")
    done = study(folder, *small, "--out", out)
    wanted = [f"{mode}.ranks-000{ranks}.run-0{number}.json" for mode in ("strong", "weak") for ranks in (1, 2)
              for number in (1, 2)]
    checks.check("study: one result a run", done.code == 0 and results(out) == wanted, done)
    checks.check("study: nothing else is left", sorted(os.listdir(out)) == ["settings", *wanted], os.listdir(out))
    for name in results(out):
        with open(os.path.join(out, name), encoding="utf-8") as file:
            report = strict_json(file.read())
        ranks = int(name.split("ranks-")[1][:4])
        rows = 20000 if name.startswith("strong") else 10000 * ranks
        checks.check(f"study: {name} is of that size", (report["comm"]["size"], report["problem"]["m"]) == (ranks, rows) and
                     report["solver"]["method"] == "refine", report["problem"])
    checks.check("study: shows each command line", done.err.count("+ ") + done.out.count("+ ") == len(wanted), done)

    os.remove(os.path.join(out, wanted[3]))
    times = {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in results(out)}
    done = study(folder, *small, "--out", out)
    checks.check("study: measures only what is missing", "1 measured, 7 there before, 0 failed" in done.out and all(
        os.stat(os.path.join(out, name)).st_mtime_ns == time for name, time in times.items()), done)
    done = study(folder, *small, "--out", out, "--force")
    checks.check("study: --force measures again", "8 measured, 0 there before" in done.out and done.code == 0, done)
    done = study(folder, *small, "--cols", 9, "--out", out)
    checks.check("study: another study is refused", done.code == 2 and "another study" in done.err and
                 "cols=8" in done.err and "cols=9" in done.err, done)
    # Threads chosen by the script: 2 cores for 1 rank, then, for 2 ranks, 1 each.
    processors = {"OMP_NUM_THREADS": "", "PATH": f"{two_processors(folder)}:{os.environ['PATH']}"}
    for ranks, changes, code, words in ((1, processors, 0, "OMP_NUM_THREADS=2"), (2, processors, 2, "(threads: OMP_NUM_THREADS"),
                                        (2, {"OMP_NUM_THREADS": "2"}, 0, "1 measured")):
        done = study(folder, "--ranks", ranks, "--rows", "20k", "--cols", 8, "--repeats", 1, "--out", os.path.join(folder, "threads"),
                     **changes)
        checks.check(f"study: {ranks} ranks with {changes.get('OMP_NUM_THREADS') or 'any'} threads in a study of 2", done.code == code and
                     words in done.out + done.err, done)
    with open(os.path.join(folder, "threads", "settings"), encoding="utf-8") as file:
        settings = file.read()
    checks.check("study: settings name threads, launcher and version", all(word in settings for word in (
        "threads=2 ", f"launcher={MPIEXEC} -n ", "version=", "(commit ")), settings)
    done = study(folder, "--ranks", 2, "--rows", "20k", "--cols", 8, "--repeats", 1, "--out", os.path.join(folder, "threads"),
                 "--launcher", f"{MPIEXEC} --bind-to none -n", OMP_NUM_THREADS="2")
    checks.check("study: another launcher is another study", done.code == 2 and "another study" in done.err, done)
    done = study(folder, "--rows", "20k", "--out", os.path.join(folder, "false"), TALLSKETCH=shutil.which("false"))
    checks.check("study: a program without a version is refused", done.code == 2 and "--version' failed on 4 ranks" in done.err and
                 os.listdir(os.path.join(folder, "false")) == [], done)

    out = os.path.join(folder, "failing")  # 2 rows for 8 columns are too few; with 20 a rank all is well from 1 rank on
    done = study(folder, "--ranks", "1,2", "--rows", 2, "--rows-per-rank", 20, "--cols", 8, "--repeats", 3, "--out", out)
    good = [f"weak.ranks-000{ranks}.run-0{number}.json" for ranks in (1, 2) for number in (1, 2, 3)]
    checks.check("study: failures are named, the others go on", done.code == 1 and results(out) == good and all(
        f"failed: strong.ranks-000{ranks}.run-01.json" in done.err for ranks in (1, 2)), done)
    checks.check("study: the other runs of a case that failed are skipped, and it says so", all(
        done.out.count(f"skipped: strong.ranks-000{ranks}.run-0{number}.json, as strong.ranks-000{ranks}.run-01.json failed") == 1
        for ranks in (1, 2) for number in (2, 3)) and "6 measured, 0 there before, 2 failed, 4 skipped" in done.out and
        done.out.count("FAILED: ") == 2, done)
    with open(os.path.join(out, "failed", "strong.ranks-0002.run-01.log"), encoding="utf-8") as file:
        checks.check("study: a failure's own words are kept", "tallsketch: error:" in file.read(), os.listdir(out))


def check_room(checks, folder):
    """What cannot be started at all is found out before anything is measured, by starting the most ranks once."""
    launcher = os.path.join(folder, "bin", "few")
    write_program(launcher, f'[[ $1 -le 2 ]] || {{ echo "not enough slots for $1" >&2; exit 1; }}; exec {MPIEXEC} -n "$@"')
    out = os.path.join(folder, "room")
    small = ["--ranks", "1 4", "--rows", "20k", "--cols", 8, "--repeats", 1, "--out", out]
    done = run_command([STUDY, "--launcher", launcher, *map(str, small)], cwd=folder,
                       environment={"TALLSKETCH": PROGRAM, "OMP_NUM_THREADS": "1"})
    checks.check("room: too many ranks: exit 2, the launcher's words and the number, nothing measured", done.code == 2 and
                 "not enough slots for 4" in done.err and "failed on 4 ranks: nothing is measured" in done.err and results(out) == [], done)
    # A Slurm job's sizes are known without starting anything.
    done = run_command([STUDY, *map(str, small)], cwd=folder, environment={
        "TALLSKETCH": PROGRAM, "SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_CPUS_PER_NODE": "8",
        "TALLSKETCH_RANKS_PER_NODE": "2"})
    checks.check("room: too few nodes: exit 2, and the sizes", done.code == 2 and len(done.err.splitlines()) == 1 and
                 "4 ranks, 2 a node, need 2 nodes, and this job has 1" in done.err and results(out) == [], done)
    with open(os.path.join(folder, "a file"), "w", encoding="ascii"):
        pass
    for place in (os.path.join(folder, "a file", "out"), "/proc/1"):
        done = study(folder, "--ranks", 1, "--out", place)
        checks.check(f"room: --out {place} cannot be written: exit 9", done.code == 9 and f"cannot write to the folder '{place}'" in done.err,
                     done)


def check_kinds(checks, folder):
    """The other things to measure, and options that go to the program."""
    for what, extra, key in (("sketch", ["--", "--zeta", 2], ("sketch", "zeta", 2)),
                             ("sketch-solve", ["--", "--seed", 7], ("sketch", "seed", 7))):
        out = os.path.join(folder, what)
        done = study(folder, "--ranks", 2, "--rows", "20k", "--cols", 8, "--repeats", 1, "--what", what, "--out", out, *extra)
        names = results(out) if done.code == 0 else []
        checks.check(f"study of {what}", names == ["strong.ranks-0002.run-01.json"], done)
        for name in names:
            with open(os.path.join(out, name), encoding="utf-8") as file:
                report = strict_json(file.read())
            checks.check(f"study of {what}: options after -- arrive", report[key[0]][key[1]] == key[2], report["sketch"])
    out = os.path.join(folder, "resident")
    done = study(folder, "--ranks", "1 2", "--rows", "20k", "--cols", 8, "--repeats", 1, "--resident", "--out", out)
    checks.check("study --resident", done.code == 0 and results(out) == [f"strong.ranks-000{n}.run-01.json" for n in (1, 2)],
                 done)
    done = plot(out, "--no-pictures")
    checks.check("study --resident: plotted", done.code == 0 and "strong" in done.out, done)


def check_usage(checks, folder):
    """Wrong use: code 2, one line that names the option, and no folder made."""
    for words, arguments in ((("--ranks", "'0'"), ["--ranks", "1 0"]), (("--rows", "'x'"), ["--rows", "x"]),
                             (("--what", "'all'"), ["--what", "all"]), (("--backend", "'gpu'"), ["--backend", "gpu"]),
                             (("--row'",), ["--row", "4"]), (("--repeats needs",), ["--repeats"]),
                             (("--ranks is empty",), ["--ranks", " "]), (("--ranks", "'1k'"), ["--ranks", "1k"]),
                             (("--ranks", "'08'"), ["--ranks", "08"]), (("--ranks", "names 2 twice"), ["--ranks", "2 1 2"]),
                             (("--repeats", "'1k'"), ["--repeats", "1k"]), (("--repeats", "'0'"), ["--repeats", 0]),
                             (("--rows", "'999999999999G'", "281474976710656"), ["--rows", "999999999999G"]),
                             (("--rows", "'281474976710657'"), ["--rows", "281474976710657"]), (("--rows", "'1.5G'"), ["--rows", "1.5G"]),
                             (("--rows-per-rank", "70368744177664"), ["--rows-per-rank", "71000G", "--ranks", "1,4"]),
                             (("--cols", "16777216"), ["--cols", "17M"]),
                             (("--resident", "--cols 8388608", "bytes"), ["--resident", "--rows", "280000G", "--cols", 8388608])):
        done = study(folder, "--out", os.path.join(folder, "never"), *arguments)
        checks.check(f"usage {arguments}", done.code == 2 and len(done.err.splitlines()) == 1 and all(
            word in done.err for word in words) and not os.path.exists(os.path.join(folder, "never")), done)
    for threads in ("abc", "0", "4,2"):
        done = study(folder, "--out", os.path.join(folder, "never"), OMP_NUM_THREADS=threads)
        checks.check(f"usage OMP_NUM_THREADS={threads}", done.code == 2 and len(done.err.splitlines()) == 1 and
                     f"OMP_NUM_THREADS '{threads}'" in done.err and not os.path.exists(os.path.join(folder, "never")), done)
    done = run_command([STUDY, "--help"])
    checks.check("usage: --help", done.code == 0 and "--rows-per-rank" in done.out, done)


def write_run(folder, name, ranks, rows, seconds, **changes):
    """A result as tallsketch would leave it, of so many seconds: a quarter of them sketch, the rest refine."""
    phases = {"upload": 0.0, "sketch": seconds / 4, "reduce": 0.0, "factor": 0.0, "refine": 3 * seconds / 4}
    timing = {phase: {"min": 0.0, "mean": 0.0, "max": value} for phase, value in phases.items()}
    timing["total"] = {"min": 0.0, "mean": 0.0, "max": 10 * seconds}
    value = {"exit_code": 0, "problem": {"m": rows, "n": 64}, "comm": {"size": ranks}, "timing": timing, **changes}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def known_study(folder):
    """Medians 8, 5 and 2.5 s strong; 4, 5 and 8 s weak; three runs each; 64 columns."""
    for mode, times in (("strong", {1: (7, 8, 9), 2: (4, 6, 5), 4: (2.5, 2.5, 3)}), ("weak", {1: (4, 4, 4), 2: (5, 5, 6), 4: (8, 8, 1)})):
        for ranks, seconds in times.items():
            for number, value in enumerate(seconds):
                write_run(folder, f"{mode}.ranks-{ranks:04d}.run-0{number + 1}.json", ranks,
                          1000 * (ranks if mode == "weak" else 1), value)


def check_numbers(checks, folder):
    """Median, min, max, speed-up, efficiency: by hand."""
    known = os.path.join(folder, "known")
    known_study(known)
    table = os.path.join(folder, "table.md")
    done = plot(known, "--no-pictures", "--markdown", table)
    cells = [line.split() for line in done.out.splitlines()[1:]]
    wanted = [["strong", "1", "3", "8", "7", "9", "1.00", "100", "%"], ["strong", "2", "3", "5", "4", "6", "1.60", "80", "%"],
              ["strong", "4", "3", "2.5", "2.5", "3", "3.20", "80", "%"],
              ["weak", "1", "3", "4", "4", "4", "1.00", "100", "%"], ["weak", "2", "3", "5", "5", "6", "1.60", "80", "%"],
              ["weak", "4", "3", "8", "1", "8", "2.00", "50", "%"]]
    checks.check("numbers: the table", done.code == 0 and cells == wanted, done)
    with open(table, encoding="utf-8") as file:
        lines = file.read().splitlines()
    checks.check("numbers: the same in Markdown", len(lines) == 2 + len(wanted) and all(
        line.strip("| ").replace("|", " ").split() == row for line, row in zip(lines[2:], wanted)), lines)
    done = plot(known, "--no-pictures", "--time", "total")
    checks.check("numbers: total time", [line.split()[3] for line in done.out.splitlines()[1:]] == [
        "80", "50", "25", "40", "50", "80"], done)
    done = plot(known, "--no-pictures", "--phases", "sketch,reduce")
    checks.check("numbers: of two phases", [line.split()[3] for line in done.out.splitlines()[1:]] == [
        "2", "1.25", "0.625", "1", "1.25", "2"], done)
    for options, words in ((["--phases", "sketch,all"], "'all' is none of"), (["--phases", ""], "'' is none of"),
                           (["--phases", "sketch", "--time", "total"], "--time total")):
        done = plot(known, "--no-pictures", *options)
        checks.check(f"numbers: {options}: exit 2", done.code == 2 and words in done.err, done)
    done = plot(known, "--no-pictures", "--phases", "factor")
    checks.check("numbers: a phase without time: exit 3", done.code == 3 and "no time in factor" in done.err, done)
    done = plot(known, "--no-pictures", "--reference", 2)
    checks.check("numbers: against 2 ranks", [line.split()[1:2] + line.split()[6:8] for line in done.out.splitlines()[1:]] == [
        ["2", "2.00", "100"], ["4", "4.00", "100"], ["2", "2.00", "100"], ["4", "2.50", "62"]], done)
    write_run(known, "strong.ranks-0008.run-01.json", 8, 1000, 0.1, exit_code=6)
    done = plot(known, "--no-pictures")
    checks.check("numbers: a failed run does not count, and is named", done.code == 0 and len(done.out.splitlines()) == 7 and
                 "strong.ranks-0008.run-01.json: exit code 6" in done.err, done)


def check_bad_results(checks, folder):
    """One clear line and code 3, or 2 for wrong use; no picture."""
    def refused(name, words, prepare, arguments=(), code=3, out=False):
        case = os.path.join(folder, "bad")
        shutil.rmtree(case, ignore_errors=True)
        known_study(case)
        prepare(case)
        done = plot(case, *arguments)
        lines = [line for line in done.err.splitlines() if line.startswith("plot_scaling")]
        checks.check(f"bad: {name}", done.code == code and len(lines) == 1 and "Traceback" not in done.err and all(
            word in lines[0] for word in words) and bool(done.out) == out, done)
        checks.check(f"bad: {name}: nothing drawn", not [f for f in (os.listdir(case) if os.path.isdir(case) else [])
                                                         if f.endswith((".png", ".svg"))], name)

    def text(path, content):
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def emptied(case):
        shutil.rmtree(case)
        os.mkdir(case)

    one = "strong.ranks-0002.run-01.json"
    refused("no folder", ["No such file"], shutil.rmtree)
    refused("no results", ["scaling_study.sh"], emptied)
    refused("not JSON", [one, "not JSON"], lambda case: text(os.path.join(case, one), "{"))
    refused("empty file", [one, "not JSON"], lambda case: text(os.path.join(case, one), ""))
    refused("other JSON", [one, "no report"], lambda case: text(os.path.join(case, one), "[1, 2]"))
    refused("null times", [one, "no report"], lambda case: write_run(case, one, 2, 1000, 1, timing={"total": None}))
    refused("times of zero", [one, "not those of a run"], lambda case: write_run(case, one, 2, 1000, 0))
    refused("endless times", [one, "not those of a run"], lambda case: write_run(case, one, 2, 1000, float("inf")))
    refused("endless ranks", [one, "not those of a run"], lambda case: write_run(case, one, float("inf"), 1000, 1))
    refused("two studies", ["strong", "several studies"], lambda case: write_run(case, one, 2, 3000, 1))
    refused("other columns", [one, "65 columns", "64", "several studies"],
            lambda case: write_run(case, one, 2, 1000, 1, problem={"m": 1000, "n": 65}))
    refused("no columns", [one, "no report"], lambda case: write_run(case, one, 2, 1000, 1, problem={"m": 1000}))
    refused("other ranks than the file's name", [one, "named for 2 ranks", "had 3"], lambda case: write_run(case, one, 3, 1000, 1))
    refused("no run at the reference", ["no run on 3 ranks", "1, 2, 4"], lambda case: None, ["--reference", 3])
    refused("all failed", ["every run failed"], lambda case: (emptied(case), write_run(case, one, 2, 1000, 1, exit_code=8)))
    refused("folder that cannot be made", ["cannot write", "/a file/pictures"], lambda case: text(os.path.join(case, "a file"), ""),
            ["--no-pictures", "--markdown", os.path.join(folder, "bad", "a file", "pictures", "t.md")], code=9, out=True)
    done = plot(folder, "--reference", "0")
    checks.check("bad: --reference 0", done.code == 2 and "--reference" in done.err, done)


def check_pictures(checks, folder):
    """All six files, well-formed, with the numbers of ranks as ticks; also of a single count and of one mode."""
    known = os.path.join(folder, "drawn")
    known_study(known)
    done = plot(known, "--out", os.path.join(folder, "pictures"))
    drawn = os.path.join(folder, "pictures")
    checks.check("pictures: all", done.code == 0 and sorted(os.listdir(drawn)) == PICTURES, done)
    for name in PICTURES:
        path = os.path.join(drawn, name)
        with open(path, "rb") as file:
            content = file.read()
        good = content.startswith(b"\x89PNG") and len(content) > 5000 if name.endswith("png") else \
            xml.etree.ElementTree.fromstring(content).tag.endswith("svg")
        checks.check(f"pictures: {name}", good, len(content))
    again = os.path.join(folder, "again")
    plot(known, "--out", again)
    with open(os.path.join(drawn, "phases.svg"), "rb") as one, open(os.path.join(again, "phases.svg"), "rb") as two:
        checks.check("pictures: the same results give the same SVG", one.read() == two.read())
    before = {name: os.stat(os.path.join(drawn, name)).st_mtime_ns for name in PICTURES}
    for options, variant in ((["--time", "total"], ".total"), (["--reference", 2], ".from-2"), (["--phases", "sketch,reduce"], ".sketch+reduce"),
                             (["--time", "total", "--reference", 2], ".total.from-2")):
        done = plot(known, "--out", drawn, *options)
        names = sorted(name.replace(".", f"{variant}.", 1) for name in PICTURES)
        checks.check(f"pictures {options}: beside the others, which stay", done.code == 0 and set(names) <= set(os.listdir(drawn)) and all(
            os.stat(os.path.join(drawn, name)).st_mtime_ns == time for name, time in before.items()), (done, os.listdir(drawn)))
    checks.check("pictures: no others", len(os.listdir(drawn)) == 5 * len(PICTURES), os.listdir(drawn))
    done = plot(known, "--out", os.path.join(known, "strong.ranks-0001.run-01.json", "sub"))
    checks.check("pictures: a folder that cannot be made: exit 9", done.code == 9 and "cannot write" in done.err, done)
    single = os.path.join(folder, "single")
    write_run(single, "weak.ranks-0001.run-01.json", 1, 1000, 2)
    done = plot(single)
    checks.check("pictures: of one run, no speed-up", done.code == 0 and len(os.listdir(single)) == 1 + 4, done)


# Numbers of ranks whose labels would be printed over each other: long, close together, many.
CROWDED = ([1, 2], [1, 2, 4, 8, 16, 32], list(range(1, 13)), [2 ** k for k in range(12)],
           [96, 100, 104, 112, 120, 128, 1000, 1024, 1100, 4096, 8192, 16384], list(range(1000, 1040)))


def check_labels(checks, folder):
    """No label of an axis lies on another, nor on the panel beside; every bar has its label, every axis its largest count."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    spec = importlib.util.spec_from_file_location("plot_scaling", PLOT[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for counts in CROWDED:
        case = os.path.join(folder, f"crowded{len(counts)}of{counts[-1]}")
        for mode in ("strong", "weak"):
            for ranks in counts:
                write_run(case, f"{mode}.ranks-{ranks:04d}.run-01.json", ranks, 1000 * (ranks if mode == "weak" else 1), 50)
        runs = module.read_folder(case)
        by_mode = {mode: module.make_points(runs, mode, "solve", None) for mode in ("strong", "weak")}
        figures = {"efficiency": module.draw_efficiency(pyplot, by_mode), "phases": module.draw_phases(pyplot, by_mode),
                   "speedup": module.draw_speed_up(pyplot, by_mode["strong"])}
        for name, figure in figures.items():
            figure.canvas.draw()
            words = [text.get_window_extent() for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
                     for text in [*axis.get_ticklabels(), axis.label] if text.get_visible() and text.get_text()]
            words += [axes.get_window_extent() for axes in figure.axes]
            words += [legend.get_window_extent() for legend in figure.legends]
            met = [(one.bounds, other.bounds) for i, one in enumerate(words) for other in words[:i] if one.overlaps(other)]
            checks.check(f"labels of {name}, {len(counts)} counts to {counts[-1]}: apart", not met, met)
            for axes in figure.axes:
                labels = [label.get_text() for label in axes.get_xticklabels() if label.get_visible()]
                checks.check(f"labels of {name}, {len(counts)} counts to {counts[-1]}: there", labels == list(map(str, counts)) if
                             name == "phases" else labels[-1] == str(counts[-1]), labels)
            pyplot.close(figure)


def main():
    checks = Checks()
    with Folder() as folder:
        for part in (check_job, check_study, check_room, check_kinds, check_usage, check_numbers, check_bad_results):
            part(checks, folder)
        if HAVE_MATPLOTLIB:
            check_pictures(checks, folder)
            check_labels(checks, folder)
    code = checks.finish()
    if code == 0 and not HAVE_MATPLOTLIB:
        print("skipped: pictures, because matplotlib (package python3-matplotlib) is not installed")
        return 77
    return code


if __name__ == "__main__":
    sys.exit(main())
