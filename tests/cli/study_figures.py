#!/usr/bin/python3
"""drivers/study.sh tiny: every study and every figure by one command; and what plot_study.py says of files it cannot draw.

Run by CTest as cli.study_figures. Skipped (after everything else) where matplotlib is missing and no figure could be drawn.
"""
import csv
import importlib.util
import os
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import script_runs  # noqa: E402  pylint: disable=wrong-import-position
from script_runs import PROGRAM, SOURCE, Checks, Folder, run_command  # noqa: E402  pylint: disable=wrong-import-position

STUDY = os.path.join(SOURCE, "drivers", "study.sh")
PLOT = os.path.join(SOURCE, "drivers", "plot_study.py")
HAVE_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
FIGURES = ["geometry_first", "geometry_random", "geometry_half", "coherence_gaussian", "coherence_coherent", "coherence_mu",
           "lstsq_residual", "lstsq_coefficients", "lstsq_precision", "lstsq_time", "range_4n"]


def study(*arguments, **changes):
    """study.sh with this build's program on the host."""
    return run_command(["bash", STUDY, *map(str, arguments)], environment={"TALLSKETCH": PROGRAM, "PYTHON": sys.executable, **changes})


def plot(*arguments):
    """plot_study.py."""
    return run_command([sys.executable, PLOT, *map(str, arguments)])


def check_one_command(checks, folder):
    """Studies, figures, and again from what is there."""
    out = os.path.join(folder, "out")
    done = study("tiny", out)
    checks.check("study.sh: runs every study", all(os.path.getsize(os.path.join(out, f"{name}.csv")) > 500
                                                   for name in ("geometry", "coherence", "lstsq", "range")), done)
    if not HAVE_MATPLOTLIB:
        checks.check("study.sh: without matplotlib says what to install", done.code == 2 and "python3-matplotlib" in done.err, done)
        return out
    checks.check("study.sh: code 0", done.code == 0 and "left out" not in done.err, done)
    for name in FIGURES:
        with open(os.path.join(out, name + ".png"), "rb") as file:
            checks.check(f"{name}.png is a picture", file.read(8) == b"\x89PNG\r\n\x1a\n" and os.path.getsize(file.name) > 10000, done)
        root = xml.etree.ElementTree.parse(os.path.join(out, name + ".svg")).getroot()
        checks.check(f"{name}.svg is a picture", root.tag.endswith("svg") and len(list(root.iter())) > 100, done)
    before = {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in os.listdir(out)}
    with open(os.path.join(out, "lstsq_residual.svg"), "rb") as file:
        drawn = file.read()
    again = study("tiny", out)
    after = {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in os.listdir(out)}
    del before[".size"]
    checks.check("study.sh: does not run again what is there, but draws it", again.code == 0 and again.out.count("is there") == 4 and all(
        (before[name] == after[name]) == name.endswith(".csv") for name in before) and {*before, ".size"} == after.keys(), again)
    with open(os.path.join(out, "lstsq_residual.svg"), "rb") as file:
        checks.check("plot_study.py: the same lines give the same file", file.read() == drawn, again)
    return out


def drawn_points(checks, function, lines):
    """(title, (y of the markers)) of every panel that a function of plot_study.py draws."""
    spec = importlib.util.spec_from_file_location("plot_study", PLOT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure = getattr(script, function)(pyplot, lines)
    checks.check(f"{function}: draws", figure is not None, lines[0])
    return [(axes.get_title(), sorted(float(y) for line in axes.get_lines() if line.get_marker() not in ("", "None", "*") for y in
                                      line.get_ydata())) for axes in figure.axes]


def check_plotted_data(checks, folder, out):
    """Figures show the columns that their axes name; files with the old names of columns give the same picture."""
    with open(os.path.join(out, "geometry.csv"), encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    for title, points in drawn_points(checks, "draw_half_distortion", lines):
        column = "minus_fp32_median" if "sigma^2" in title else "length_minus_fp32_median"
        expected = sorted(float(line[column]) for line in lines if line["family"] == "sparsestack" and line[column])
        checks.check(f"geometry_half, {title}: the points are {column}", points == expected and len(set(expected)) > 1, (points, expected))
    with open(os.path.join(out, "lstsq.csv"), encoding="utf-8") as file:
        text = file.read()
    old = os.path.join(folder, "old.csv")
    with open(old, "w", encoding="utf-8") as file:
        file.write(text.replace("over_fp32_excess_", "over_fp32_"))
    pictures = []
    for path in (os.path.join(out, "lstsq.csv"), old):
        done = plot(path, "--out", folder)
        with open(os.path.join(folder, "lstsq_precision.svg"), "rb") as file:
            pictures.append(file.read())
        checks.check(f"plot_study.py: draws {os.path.basename(path)}", done.code == 0, done)
    checks.check("plot_study.py: over_fp32_* of older files is over_fp32_excess_*", pictures[0] == pictures[1], "")


def check_wrong_use(checks, folder):
    """study.sh: sizes, programs, failures of a study."""
    for arguments, word in (((), "usage"), (("huge", folder), "'huge' is no size"), (("tiny",), "usage")):
        done = study(*arguments)
        checks.check(f"study.sh {arguments}: code 2, why", done.code == 2 and word in done.err, done)
    done = study("tiny", os.path.join(folder, "none"), TALLSKETCH="/nowhere/tallsketch")
    checks.check("study.sh: a program that is not there", done.code == 2 and "/nowhere/tallsketch" in done.err, done)
    done = study("figures", os.path.join(folder, "empty"))
    checks.check("study.sh figures: of an empty folder", done.code == 2 and "no CSV files" in done.err, done)
    stopped = os.path.join(folder, "stopped")
    done = study("tiny", stopped, LAUNCH="false")  # words before the program
    checks.check("study.sh: ends with the code of the study that failed", done.code == 1 and os.listdir(stopped) == [".size"], done)
    again = study("small", stopped, LAUNCH="false")
    checks.check("study.sh: a folder without results takes another size", again.code == 1 and "another folder" not in again.err, again)


def check_sizes(checks, out):
    """study.sh: results of one size are not taken for those of another; nor are those of an unknown one."""
    def times():
        return {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in os.listdir(out)}

    before = times()
    done = study("small", out, LAUNCH="false")
    checks.check("study.sh: another size is code 2, names both, changes nothing", done.code == 2 and "results of tiny, not of small" in done.err
                 and times() == before, done)
    os.remove(os.path.join(out, ".size"))
    done = study("tiny", out, LAUNCH="false")
    checks.check("study.sh: so are results of nobody knows which", done.code == 2 and "unknown size" in done.err, done)


def check_bad_files(checks, folder, out):
    """plot_study.py: code 3 and one line for what is no result."""
    def written(name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    with open(os.path.join(out, "lstsq.csv"), encoding="utf-8") as file:
        text = file.read()
    head, first, *_ = text.splitlines()
    wrong_number = dict(zip(head.split(","), first.split(",")), excess_median="much")
    cases = {"missing": (os.path.join(folder, "none.csv"), "No such file"), "empty": (written("empty.csv", ""), "no lines"),
             "header alone": (written("header.csv", head + "\n"), "no lines"),
             "of something else": (written("other.csv", "a,b\n1,2\n"), "no study"),
             "cut": (written("cut.csv", text[:text.rindex(",")][:-40]), "more or fewer columns"),
             "no number": (written("word.csv", f"{head}\n{','.join(wrong_number.values())}\n"), "'much' is no number")}
    for name, (path, word) in cases.items():
        if name == "no number" and not HAVE_MATPLOTLIB:
            continue
        done = plot(path, "--out", folder)
        checks.check(f"plot_study.py: {name}: code 3 and why", done.code == 3 and word in done.err and
                     [line for line in done.err.splitlines() if line.startswith("plot_study: ")] == done.err.splitlines()[-1:], done)
    checks.check("plot_study.py: no file at all is wrong use", plot().code == 2, "")
    if HAVE_MATPLOTLIB:
        done = plot(os.path.join(out, "lstsq.csv"), "--out", written("a_file", "x"))
        checks.check("plot_study.py: a folder that cannot be made is code 3", done.code == 3 and "cannot write" in done.err, done)
        failed = [line for line in csv.DictReader(open(os.path.join(out, "range.csv"), encoding="utf-8")) if line["solved"] == "0"]
        path = os.path.join(folder, "failed.csv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, failed[0].keys())
            writer.writeheader()
            writer.writerows(failed)
        done = plot(path, "--out", folder)
        checks.check("plot_study.py: draws cases that all failed", done.code == 0 and "range_4n.png" in done.out, done)


def main():
    script_runs.LIMIT_SECONDS = 240  # studies compute, and machines are shared
    checks = Checks()
    with Folder() as folder:
        out = check_one_command(checks, folder)
        if HAVE_MATPLOTLIB:
            check_plotted_data(checks, folder, out)
        check_wrong_use(checks, folder)
        check_bad_files(checks, folder, out)
        check_sizes(checks, out)
    code = checks.finish()
    if code == 0 and not HAVE_MATPLOTLIB:
        print("skipped: no figure was drawn, because matplotlib is missing")
        return 77
    return code


if __name__ == "__main__":
    sys.exit(main())
