#!/usr/bin/python3
"""Draws and prints a scaling study: speed-up, efficiency and phase times over the number of ranks.

Reads the JSON files that scaling_study.sh leaves in a folder: reports of `tallsketch solve` or `sketch`, or lines of
`tallsketch bench solve`, named strong.* or weak.*. Needs Python with matplotlib (Debian: python3-matplotlib).
Exit codes: 0 drawn, 2 wrong use, 3 results that cannot be used, 9 pictures or table not written.
"""
import argparse
import json
import math
import os
import re
import statistics
import sys

PHASES = ("upload", "sketch", "reduce", "factor", "refine")  # what a solve consists of, in this order
MODES = ("strong", "weak")
# Dark to light, so that they differ in greyscale too, and each with a hatch.
COLOURS = {"upload": ("#0b1f3a", ""), "sketch": ("#1f5f8b", "//"), "reduce": ("#b5482a", ""),
           "factor": ("#e0a030", "xx"), "refine": ("#9cc5d8", ".."), "other": ("#d9d9d9", "")}
LINES = {"strong": ("#1f5f8b", "o", "-"), "weak": ("#b5482a", "s", "--")}


class StudyError(Exception):
    """What is wrong with the results, in one line."""


class Measured:
    """A run: file, mode, ranks, m, n, seconds of each phase and in all."""

    def __init__(self, path, mode, sizes, phases, total):
        self.path, self.mode, self.phases, self.total = path, mode, phases, total
        self.ranks, self.rows, self.cols = map(int, sizes)


def phases_of(value):
    """((ranks, m, n), {phase: seconds of the slowest rank}, total seconds) of a report, or of a line of bench solve."""
    if value.get("bench") == "solve":
        floor = value["floor_ms"] / 1e3
        phases = {phase: value[f"{phase}_floors"] * floor for phase in PHASES if f"{phase}_floors" in value}
        return (value["ranks"], value["m"], value["n"]), phases, value["wall_ms"] / 1e3
    timing, problem = value["timing"], value["problem"]
    return ((value["comm"]["size"], problem["m"], problem["n"]), {phase: timing[phase]["max"] for phase in PHASES},
            timing["total"]["max"])


def read_run(path, mode):
    """The run in a file; None, and a line on standard error, if the program says that it failed."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: not JSON ({error})") from error
    if isinstance(value, dict) and value.get("exit_code", 0) != 0:
        print(f"left out: {path}: exit code {value['exit_code']}", file=sys.stderr)
        return None
    try:
        sizes, phases, total = phases_of(value)
        phases = {phase: float(seconds) for phase, seconds in phases.items()}
        sizes, total = [float(size) for size in sizes], float(total)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StudyError(f"{path}: no report of tallsketch solve or sketch, no line of bench solve ({error!r})") from error
    numbers = (*sizes, total, *phases.values())
    if not (all(math.isfinite(number) and number >= 0 for number in numbers) and
            all(size >= 1 and size == int(size) for size in sizes) and total > 0 and sum(phases.values()) > 0):
        raise StudyError(f"{path}: ranks, rows and columns {sizes}, times {phases}, total {total}: not those of a run")
    run = Measured(path, mode, sizes, phases, total)
    named = re.search(r"\.ranks-(\d+)\.", os.path.basename(path))
    if named and int(named[1]) != run.ranks:
        raise StudyError(f"{path}: the file is named for {int(named[1])} ranks, the run had {run.ranks}")
    return run


def read_folder(folder):
    """All runs of a folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError as error:
        raise StudyError(f"{folder}: {error.strerror}") from error
    named = [(name, mode) for name in names for mode in MODES if name.startswith(mode + ".")]
    if not named:
        raise StudyError(f"{folder}: no files strong.*.json or weak.*.json; slurm/scaling_study.sh makes them")
    runs = [read_run(os.path.join(folder, name), mode) for name, mode in named]
    return [run for run in runs if run is not None]


def keep_phases(runs, phases):
    """Leaves these phases of each run."""
    for run in runs:
        run.phases = {phase: seconds for phase, seconds in run.phases.items() if phase in phases}
        if sum(run.phases.values()) <= 0:
            raise StudyError(f"{run.path}: no time in {', '.join(phases)}")


def seconds_of(run, time):
    """What counts of a run. Rows are made as they are read, which no user's matrix needs: `solve` leaves that out."""
    return run.total if time == "total" else sum(run.phases.values())


class Point:
    """All runs of a mode on one number of ranks."""

    def __init__(self, mode, ranks, runs, time):
        seconds = [seconds_of(run, time) for run in runs]
        self.mode, self.ranks, self.runs = mode, ranks, len(runs)
        self.median, self.least, self.most = statistics.median(seconds), min(seconds), max(seconds)
        self.phases = {phase: statistics.median(run.phases.get(phase, 0.0) for run in runs) for phase in PHASES}
        if time == "total":
            self.phases["other"] = max(0.0, self.median - sum(self.phases.values()))
        self.speed_up = self.efficiency = 0.0


def make_points(runs, mode, time, reference):
    """Points of a mode, by ranks, with speed-up and efficiency against the reference: its number of ranks is the time's
    worth on one rank, so that the ideal speed-up is the number of ranks."""
    counts = sorted({run.ranks for run in runs if run.mode == mode})
    if not counts:
        return []
    first = reference or counts[0]
    if first not in counts:
        raise StudyError(f"{mode} scaling: no run on {first} rank{'s' * (first > 1)}, only on {', '.join(map(str, counts))}")
    points = [Point(mode, count, [run for run in runs if run.mode == mode and run.ranks == count], time)
              for count in counts if count >= first]
    for point in points:
        ratio = points[0].median / point.median
        point.efficiency = ratio if mode == "weak" else ratio * first / point.ranks
        point.speed_up = point.efficiency * point.ranks
    return points


def check_sizes(runs):
    """Strong scaling is of one matrix, weak of as many rows for each rank (to the rounding of rows to ranks); all runs have as
    many columns."""
    for run in runs:
        if run.cols != runs[0].cols:
            raise StudyError(f"{run.path} has {run.cols} columns, {runs[0].path} {runs[0].cols}: results of several studies in "
                             "one folder")
    for mode in MODES:
        sizes = [run.rows / (run.ranks if mode == "weak" else 1) for run in runs if run.mode == mode]
        if sizes and max(sizes) - min(sizes) > max(2, 1e-3 * max(sizes)):
            raise StudyError(f"{mode} scaling: rows{' a rank' if mode == 'weak' else ''} from {min(sizes):.0f} to "
                             f"{max(sizes):.0f}: results of several studies in one folder")


HEAD = ("scaling", "ranks", "runs", "median s", "min s", "max s", "speed-up", "efficiency")


def table_rows(points):
    """The table's lines, as texts."""
    return [(p.mode, str(p.ranks), str(p.runs), f"{p.median:.4g}", f"{p.least:.4g}", f"{p.most:.4g}", f"{p.speed_up:.2f}",
             f"{100 * p.efficiency:.0f} %") for p in points]


def text_table(points):
    """For a terminal."""
    lines = [HEAD, *table_rows(points)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths)))
                     for line in lines) + "\n"


def markdown_table(points):
    """For a document."""
    lines = [HEAD, ("---", *["---:"] * (len(HEAD) - 1)), *table_rows(points)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def set_ranks_axis(axes, counts):
    """A log2 axis with the measured numbers of ranks as its ticks, and no others."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, labels=[str(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("MPI ranks")


def overlap(one, other):
    """Whether two labels touch, a little room between them included."""
    return one.get_window_extent().expanded(1.1, 1.05).overlaps(other.get_window_extent())


def thin_labels(figure, axis):
    """Takes away what would be printed over its neighbour, from the largest number down; its tick stays."""
    figure.canvas.draw()  # now labels have sizes
    kept = None
    for label in reversed(axis.get_ticklabels()):
        if kept is not None and overlap(kept, label):
            label.set_visible(False)
        else:
            kept = label


def turn_labels(figure, axis):
    """Upright, if they would be printed over each other."""
    figure.canvas.draw()
    labels = axis.get_ticklabels()
    if any(overlap(one, other) for one, other in zip(labels, labels[1:])):
        axis.set_tick_params(rotation=90)


def draw_speed_up(plt, points):
    """Strong scaling: speed-up with the span from the slowest to the fastest run, and the ideal line."""
    figure, axes = plt.subplots(figsize=(5, 4))
    counts = [p.ranks for p in points]
    axes.plot(counts, counts, color="0.5", linestyle=":", label="ideal")
    colour, marker, line = LINES["strong"]
    one = points[0].median * points[0].ranks
    # Never below zero: of a single run, rounding may leave -1e-16, which errorbar refuses.
    spans = [[max(0, p.speed_up - one / p.most) for p in points], [max(0, one / p.least - p.speed_up) for p in points]]
    axes.errorbar(counts, [p.speed_up for p in points], yerr=spans, color=colour, marker=marker, linestyle=line, capsize=3,
                  label="measured (median, min to max)")
    set_ranks_axis(axes, counts)
    axes.set_yscale("log", base=2)
    axes.set_yticks(counts, labels=[str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylabel("speed-up")
    axes.set_title("Strong scaling")
    axes.grid(color="0.9")
    axes.legend(frameon=False)
    thin_labels(figure, axes.xaxis)
    thin_labels(figure, axes.yaxis)
    return figure


def draw_efficiency(plt, by_mode):
    """Both modes, per cent of the ideal."""
    figure, axes = plt.subplots(figsize=(5, 4))
    counts = sorted({p.ranks for points in by_mode.values() for p in points})
    axes.plot(counts, [100] * len(counts), color="0.5", linestyle=":", label="ideal")
    for mode, points in by_mode.items():
        colour, marker, line = LINES[mode]
        axes.plot([p.ranks for p in points], [100 * p.efficiency for p in points], color=colour, marker=marker, linestyle=line,
                  label=f"{mode} scaling")
    set_ranks_axis(axes, counts)
    axes.set_ylim(0, max(110, 108 * max(p.efficiency for points in by_mode.values() for p in points)))
    axes.set_ylabel("parallel efficiency (%)")
    axes.set_title("Efficiency")
    axes.grid(color="0.9")
    axes.legend(frameon=False, loc="lower left")
    thin_labels(figure, axes.xaxis)
    return figure


def draw_phases(plt, by_mode):
    """Where the time goes: median times of each phase, stacked, a panel for each mode. Strong scaling: times ranks, so that
    the ideal is of equal height there too, and what does not get shorter with more ranks shows."""
    widths = [max(4, 0.2 * len(points)) for points in by_mode.values()]  # inches: labels that stand upright have room
    figure, panels = plt.subplots(1, len(by_mode), figsize=(1.2 + sum(widths), 4), squeeze=False, sharey=False,
                                  gridspec_kw={"width_ratios": widths})
    for axes, (mode, points) in zip(panels[0], by_mode.items()):
        places = range(len(points))
        base = [0.0] * len(points)
        for phase, (colour, hatch) in COLOURS.items():
            heights = [p.phases.get(phase, 0.0) * (p.ranks if mode == "strong" else 1) for p in points]
            if not any(heights):
                continue
            axes.bar(places, heights, 0.7, bottom=base, label=phase, color=colour, hatch=hatch, edgecolor="white",
                     linewidth=0.5)
            base = [low + height for low, height in zip(base, heights)]
        axes.axhline(base[0], color="0.5", linestyle=":", label="ideal")
        axes.set_xticks(places, labels=[str(p.ranks) for p in points])
        axes.set_xlabel("MPI ranks")
        axes.set_ylabel("seconds x ranks" if mode == "strong" else "seconds")
        axes.set_title(f"{mode.capitalize()} scaling")
        axes.set_axisbelow(True)
        axes.grid(axis="y", color="0.9")
    handles = {label: handle for axes in panels[0] for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(list(handles.values())[::-1], list(handles)[::-1], frameon=False, loc="center right")
    # Inches: the legend, and between the panels numbers and name of an axis.
    figure.subplots_adjust(right=1 - 1.2 / figure.get_figwidth(), wspace=1.1 / statistics.mean(widths))
    for axes in panels[0]:
        turn_labels(figure, axes.xaxis)
    return figure


def variant_of(options):
    """Part of the pictures' names, so that those of other times, phases or references are not replaced."""
    return (".total" if options.time == "total" else "") + (
        "." + "+".join(options.phases) if options.phases else "") + (f".from-{options.reference}" if options.reference else "")


def draw(by_mode, folder, variant):
    """Writes all pictures, PNG and SVG; their paths."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tallsketch"  # the same results give the same file
    from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    figures = {"efficiency": draw_efficiency(plt, by_mode), "phases": draw_phases(plt, by_mode)}
    if "strong" in by_mode:
        figures["speedup"] = draw_speed_up(plt, by_mode["strong"])
    paths = []
    for name, figure in sorted(figures.items()):
        for kind in ("png", "svg"):
            paths.append(os.path.join(folder, f"{name}{variant}.{kind}"))
            figure.savefig(paths[-1], dpi=150, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None)
        plt.close(figure)
    return paths


def parse(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description="Draws and prints a scaling study made by scaling_study.sh.")
    parser.add_argument("folder", help="results: strong.*.json, weak.*.json")
    parser.add_argument("--out", help="folder for the pictures (default: the results')")
    parser.add_argument("--time", choices=("solve", "total"), default="solve",
                        help="what is compared: solve: upload, sketch, reduce, factor and refine, each of its slowest rank; "
                             "total: from start to end, with making or reading rows; pictures NAME.total.png (default: solve)")
    parser.add_argument("--phases", metavar="LIST", help=f"of {', '.join(PHASES)}: compare these alone, for example sketch,reduce; "
                        "pictures NAME.sketch+reduce.png")
    parser.add_argument("--reference", type=int, help="ranks that the others are compared with; pictures NAME.from-RANKS.png (default: the fewest)")
    parser.add_argument("--markdown", metavar="FILE", help="write the table here too, as Markdown")
    parser.add_argument("--no-pictures", action="store_true", help="the table alone, without matplotlib")
    options = parser.parse_args(arguments)
    if options.reference is not None and options.reference < 1:
        parser.error("--reference: at least 1")
    options.phases = options.phases.split(",") if options.phases is not None else []
    for phase in options.phases:
        if phase not in PHASES:
            parser.error(f"--phases: '{phase}' is none of {', '.join(PHASES)}")
    if options.phases and options.time == "total":
        parser.error("--phases: parts of a solve, not of --time total")
    return options


def main(arguments=None):
    options = parse(arguments)
    try:
        runs = read_folder(options.folder)
        if not runs:
            raise StudyError(f"{options.folder}: every run failed")
        check_sizes(runs)
        if options.phases:
            keep_phases(runs, options.phases)
        by_mode = {mode: make_points(runs, mode, options.time, options.reference) for mode in MODES}
        by_mode = {mode: points for mode, points in by_mode.items() if points}
        points = [point for mode in by_mode.values() for point in mode]
        print(text_table(points), end="")
        if options.markdown:
            with open(options.markdown, "w", encoding="utf-8") as file:
                file.write(markdown_table(points))
        if not options.no_pictures:
            os.makedirs(options.out or options.folder, exist_ok=True)
            print("drawn:", *draw(by_mode, options.out or options.folder, variant_of(options)))
    except StudyError as error:
        print(f"plot_scaling: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"plot_scaling: cannot write: {error}", file=sys.stderr)
        return 9
    except ImportError as error:
        print(f"plot_scaling: {error}; install python3-matplotlib, or use --no-pictures", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
