#!/usr/bin/python3
"""Draws what `tallsketch study` measured: one or more figures a study, beside the numbers of the papers.

Reads the CSV files of the studies, in any number and order: lines of one study are put together. What study a file is of, its
header says. Needs Python with matplotlib (Debian: python3-matplotlib). Exit codes: 0 drawn, 2 wrong use, 3 results that cannot
be used.
"""
import argparse
import csv
import math
import os
import sys

ZETA_COLOURS = {1: "#b5482a", 2: "#e0a030", 4: "#1f5f8b", 8: "#0b1f3a"}
ZETA_MARKERS = {1: "v", 2: "s", 4: "o", 8: "D"}
HASH_LINES = {"permuted": "-", "independent": "--"}
PAPER = {"color": "black", "marker": "*", "markersize": 11, "linestyle": "none", "zorder": 5}
SYSTEMS = ("low-coherence", "coherent")
# Conversions of the range study: label, colour, marker, line.
CONVERSIONS = {("fp16", "nearest", "none"): ("FP16 nearest, no scaling", "#b5482a", "o", "-"),
               ("fp16", "stochastic", "none"): ("FP16 stochastic, no scaling", "#e0a030", "s", "-"),
               ("fp16", "dither", "none"): ("FP16 dither, no scaling", "#8a8a8a", "v", ":"),
               ("fp16", "nearest", "auto"): ("FP16 nearest, --scaling auto", "#1f5f8b", "D", "-"),
               ("bf16", "nearest", "none"): ("BF16 nearest", "#0b1f3a", "^", "--")}


class StudyError(Exception):
    """What is wrong with the results, in one line."""


# ---- lines ----------------------------------------------------------------------------------------------------------------

def read_lines(paths):
    """{study: its lines}, of all files."""
    studies = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8", newline="") as file:
                lines = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise StudyError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if not lines:
            raise StudyError(f"{path}: no lines")
        found = [study for study, (columns, _) in STUDIES.items() if columns <= set(lines[0])]
        if not found:
            raise StudyError(f"{path}: the columns of no study; tallsketch study ... -o X.csv writes such files")
        if any(None in line or None in line.values() for line in lines):
            raise StudyError(f"{path}: a line with more or fewer columns than the header has")
        studies.setdefault(found[0], []).extend(map(renamed, lines) if found[0] == "lstsq" else lines)
    return studies


def renamed(line):
    """A line of study lstsq by today's names: over_fp32_excess_* was called over_fp32_*, which in study range is another figure."""
    return {f"over_fp32_excess_{name[10:]}" if name in ("over_fp32_median", "over_fp32_least", "over_fp32_largest") else name: text
            for name, text in line.items()}


def number(line, column):
    """A figure; NaN where nothing was solved."""
    text = line[column]
    try:
        return float(text) if text else math.nan
    except ValueError as error:
        raise StudyError(f"column {column}: '{text}' is no number") from error


def ratio(line):
    """d / n."""
    return number(line, "d") / number(line, "n")


def values(lines, column):
    """What occurs in a column, in the order of its first appearance."""
    return list(dict.fromkeys(line[column] for line in lines))


def where(lines, **wanted):
    """Lines with these texts."""
    return [line for line in lines if all(line[column] == text for column, text in wanted.items())]


def sizes_text(lines):
    """"m = 16384, n = 64, host, 10 seeds" of all lines."""
    parts = [f"{name} = {' / '.join(values(lines, column))}" for name, column in (("m", "m"), ("n", "n"))]
    return ", ".join([*parts, " / ".join(values(lines, "backend")), " / ".join(values(lines, "seeds")) + " seeds"])


# ---- drawing --------------------------------------------------------------------------------------------------------------

def spread_line(axes, lines, x_of, column, **style):
    """Medians with the span from the least to the largest seed, by x."""
    lines = sorted(lines, key=x_of)
    x, middle = [x_of(line) for line in lines], [number(line, column + "_median") for line in lines]
    low, high = ([number(line, f"{column}_{end}") for line in lines] for end in ("least", "largest"))
    axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
    axes.plot(x, middle, markersize=4, **style)


def log_ticks(axis):
    """Numbers between the powers of ten, which leave an axis of one decade without a scale; for an axis that is drawn."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator  # pylint: disable=import-outside-toplevel
    low, high = axis.get_view_interval()
    axis.set_major_locator(MaxNLocator(6) if high < 3 * low else LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def ratio_axis(axes, lines):
    """A log2 axis of d / n with what was measured as its ticks."""
    from matplotlib.ticker import NullLocator  # pylint: disable=import-outside-toplevel
    ticks = sorted({ratio(line) for line in lines})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("d / n")
    axes.grid(color="0.9")


def finish(figure, panels, lines, title):
    """One legend beside the panels, without repetition, and a title with the sizes."""
    handles = {}
    for axes in panels:
        handles.update({label: handle for handle, label in zip(*axes.get_legend_handles_labels())})
    figure.legend(list(handles.values()), list(handles), frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(f"{title}\n{sizes_text(lines)}", fontsize=11)
    figure.tight_layout()
    return figure


def of_paper_size(lines):
    """Whether coefficients and times can be set beside paper F's."""
    return values(lines, "m") == ["2097152"] and values(lines, "n") == ["1024"]


# ---- study lstsq ----------------------------------------------------------------------------------------------------------

def draw_residuals(plt, lines):
    """Residuals over d / n: of the low-coherence system above the exact one, of the coherent one as they are."""
    solved = [line for line in where(lines, method="sketch-solve", precision="fp32") if number(line, "ridge") == 0]
    if not solved:
        return None
    systems = [system for system in SYSTEMS if where(solved, system=system)]
    hashes = [name for name in HASH_LINES if where(solved, hash=name)]
    figure, grid = plt.subplots(len(systems), len(hashes), figsize=(4.2 * len(hashes), 3.4 * len(systems)), squeeze=False)
    for row, system in zip(grid, systems):
        for axes, name in zip(row, hashes):
            column = "excess" if system == "low-coherence" else "residual"
            panel = where(solved, system=system, hash=name)
            for zeta in sorted({int(line["zeta"]) for line in panel}):
                spread_line(axes, where(panel, zeta=str(zeta)), ratio, column, color=ZETA_COLOURS.get(zeta, "0.4"),
                            marker=ZETA_MARKERS.get(zeta, "x"), label="zeta = 1 (CountSketch)" if zeta == 1 else f"zeta = {zeta}")
            ticks = sorted({ratio(line) for line in panel})
            exact = number(panel[0], "exact_residual")
            theory = [math.sqrt(tick / (tick - 1)) - 1 for tick in ticks]
            if column == "residual":
                axes.axhline(exact, color="0.5", linestyle=":", label="exact solution")
                theory = [exact * (1 + excess) for excess in theory]
                axes.plot([8], [4.93e-4], label="paper F, FP16, zeta = 4", **PAPER)
                axes.plot([8], [0.112], label="paper F, CountSketch", **{**PAPER, "marker": "X", "markersize": 9})
            else:
                axes.plot([2, 32], [0.1155 / 0.08094 - 1, 0.08223 / 0.08094 - 1], label="paper F, FP16, zeta = 4", **PAPER)
            axes.plot(ticks, theory, color="0.5", linestyle="-.", label="expected: sqrt(d / (d - n)) times exact")
            axes.set_yscale("log")
            if column == "excess":
                log_ticks(axes.yaxis)
            ratio_axis(axes, panel)
            axes.set_ylabel("||A x - b|| over the least, minus 1" if column == "excess" else "||A x - b|| / ||b||")
            axes.set_title(f"{system}, {name} hash", fontsize=10)
    return finish(figure, grid.flat, solved, "Sketch-and-solve, FP32 sketches: residual")


def draw_coefficients(plt, lines):
    """Coefficient errors over d / n."""
    solved = [line for line in where(lines, method="sketch-solve", zeta="4") if number(line, "ridge") == 0]
    if not solved:
        return None
    systems = [system for system in SYSTEMS if where(solved, system=system)]
    figure, grid = plt.subplots(1, len(systems), figsize=(4.4 * len(systems), 3.6), squeeze=False)
    looks = {"fp32": ("#1f5f8b", "o"), "fp16": ("#b5482a", "s"), "bf16": ("#e0a030", "^"), "fp64": ("0.4", "x")}
    for axes, system in zip(grid[0], systems):
        panel = where(solved, system=system)
        for name in values(panel, "hash"):
            for precision in values(panel, "precision"):
                colour, marker = looks[precision]
                spread_line(axes, where(panel, hash=name, precision=precision), ratio, "coefficient_error", color=colour, marker=marker,
                            linestyle=HASH_LINES[name], label=f"{precision}, {name}")
        if system == "low-coherence" and of_paper_size(panel):
            axes.plot([2, 2], [0.444, 0.468], label="paper F, FP16 and FP32", **PAPER)
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
        ratio_axis(axes, panel)
        axes.set_ylabel("||x - x*|| / ||x*||")
        axes.set_title(system, fontsize=10)
    return finish(figure, grid.flat, solved, "Sketch-and-solve, zeta = 4: coefficient error")


def draw_precisions(plt, lines):
    """What 16 bits cost: residual over that of the FP32 sketch of the same seed, per cent."""
    halves = [line for line in where(lines, method="sketch-solve", zeta="4") if number(line, "ridge") == 0 and line["over_fp32_excess_median"]
              and line["precision"] in ("fp16", "bf16")]
    if not halves:
        return None
    systems = [system for system in SYSTEMS if where(halves, system=system)]
    figure, grid = plt.subplots(1, len(systems), figsize=(4.4 * len(systems), 3.6), squeeze=False, sharey=True)
    for axes, system in zip(grid[0], systems):
        panel = where(halves, system=system)
        for precision, colour, marker in (("fp16", "#b5482a", "s"), ("bf16", "#e0a030", "^")):
            for name in values(panel, "hash"):
                chosen = sorted(where(panel, precision=precision, hash=name), key=ratio)
                if not chosen:
                    continue
                x = [ratio(line) for line in chosen]
                percent = {end: [100 * number(line, f"over_fp32_excess_{end}") for line in chosen] for end in ("least", "median", "largest")}
                axes.fill_between(x, percent["least"], percent["largest"], color=colour, alpha=0.12, linewidth=0)
                axes.plot(x, percent["median"], color=colour, marker=marker, markersize=4, linestyle=HASH_LINES[name],
                          label=f"{precision}, {name}")
        axes.plot([2], [0.34 if system == "low-coherence" else 0.35], label="paper F, FP16 at d = 2n", **PAPER)
        axes.axhline(0, color="0.5", linewidth=0.8)
        axes.set_yscale("symlog", linthresh=1)
        ratio_axis(axes, panel)
        axes.set_ylabel("residual over that of FP32 (%)")
        axes.set_title(system, fontsize=10)
    return finish(figure, grid.flat, halves, "16-bit sketches, zeta = 4, beside FP32 by the same seed")


def draw_times(plt, lines):
    """Time against quality: the way from fast to exact, zeta = 4. Emulated 16-bit sketches have no times worth showing."""
    solved = [line for line in where(lines, zeta="4", hash=values(lines, "hash")[0]) if number(line, "ridge") == 0 and
              (line["backend"] != "host" or line["precision"] in ("fp32", "fp64"))]
    if not solved:
        return None
    systems = [system for system in SYSTEMS if where(solved, system=system)]
    figure, grid = plt.subplots(1, len(systems), figsize=(4.6 * len(systems), 3.8), squeeze=False)
    looks = {"fp32": ("#1f5f8b", "o"), "fp16": ("#b5482a", "s"), "bf16": ("#e0a030", "^"), "fp64": ("0.4", "x")}
    floor = 1e-6  # of the picture: refined solutions are exact to rounding
    for axes, system in zip(grid[0], systems):
        for precision in values(solved, "precision"):
            colour, marker = looks[precision]
            for method, line_style, name in (("sketch-solve", "-", "sketch-solve"), ("refine", ":", "refine")):
                chosen = sorted(where(solved, system=system, precision=precision, method=method), key=ratio)
                chosen = [line for line in chosen if line["ms_median"]]
                if not chosen:
                    continue
                x = [number(line, "ms_median") for line in chosen]
                y = [max(floor, number(line, "excess_median")) for line in chosen]
                axes.plot(x, y, color=colour, marker=marker, markersize=4, linestyle=line_style, label=f"{name}, {precision}")
                if precision == "fp32":
                    for line, left, top in zip(chosen, x, y) if method == "sketch-solve" else ():
                        axes.annotate(f"{ratio(line):g}n", (left, top), textcoords="offset points", xytext=(5, 4), fontsize=7)
        if system == "low-coherence" and of_paper_size(solved):
            axes.plot([13.921, 35.016], [0.1155 / 0.08094 - 1, 0.08223 / 0.08094 - 1], label="paper F, FP16, d = 2n, 32n (H200 NVL)", **PAPER)
        axes.text(0.5, 0.16, "refined: exact to rounding", transform=axes.transAxes, fontsize=8, color="0.4", ha="center")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(floor / 3, 3)
        axes.grid(color="0.9")
        axes.set_xlabel("time of a solve, A in memory (ms)")
        axes.set_ylabel("||A x - b|| over the least, minus 1")
        axes.set_title(system, fontsize=10)
    return finish(figure, grid.flat, solved, f"Time and quality, zeta = 4, {values(solved, 'hash')[0]} hash ({' / '.join(values(solved, 'device'))})")


def draw_lstsq(plt, lines):
    """Figures of study lstsq, by name."""
    return {"lstsq_residual": draw_residuals(plt, lines), "lstsq_coefficients": draw_coefficients(plt, lines),
            "lstsq_precision": draw_precisions(plt, lines), "lstsq_time": draw_times(plt, lines)}


# ---- study range ----------------------------------------------------------------------------------------------------------

# Paper F, V-E: powers at which FP16 by nearest fails; plateau of the coherent residual ratio by d / n.
PAPER_FAILS = {"low-coherence": (-40, -32, -24, 16, 20), "coherent": (-40, -32, -24, 20)}
PAPER_PLATEAU = {2: 1.556, 8: 1.171}


def draw_range_of(plt, lines, oversample):
    """Residual over that of FP32, by power; what failed stands above the line on top."""
    systems = [system for system in SYSTEMS if where(lines, system=system)]
    figure, grid = plt.subplots(len(systems), 1, figsize=(7.5, 3.6 * len(systems)), squeeze=False)
    for axes, system in zip(grid[:, 0], systems):
        panel = where(lines, system=system)
        powers = sorted({int(line["power"]) for line in panel})
        top = max([10.0] + [number(line, "over_fp32_largest") for line in panel if line["over_fp32_largest"]])
        first, step = 3 * top, 2.2
        failing = {}
        for key in CONVERSIONS:
            chosen = [line for line in panel if (line["precision"], line["rounding"], line["scaling"]) == key]
            if any(int(line["solved"]) < int(line["seeds"]) for line in chosen):
                failing[key] = first * step**len(failing)
        axes.axhline(first / 1.7, color="0.6", linewidth=0.8)
        for key, (label, colour, marker, line_style) in CONVERSIONS.items():
            chosen = [line for line in panel if (line["precision"], line["rounding"], line["scaling"]) == key]
            if not chosen:
                continue
            good = [line for line in chosen if line["over_fp32_median"]]
            spread_line(axes, good, lambda line: int(line["power"]), "over_fp32", color=colour, marker=marker, linestyle=line_style,
                        label=label)
            bad = [line for line in chosen if int(line["solved"]) < int(line["seeds"])]
            for line in bad:
                whole = line["solved"] == "0"
                axes.plot([int(line["power"])], [failing[key]], color=colour, marker="X" if whole else "x", markersize=7 if whole else 5,
                          linestyle="none")
        paper_y = first * step**len(failing)
        axes.plot(PAPER_FAILS[system], [paper_y] * len(PAPER_FAILS[system]), label="paper F: FP16 nearest fails",
                  **{**PAPER, "marker": "|", "markersize": 9, "markeredgewidth": 2})
        if system == "coherent" and oversample in PAPER_PLATEAU:
            axes.axhline(PAPER_PLATEAU[oversample], xmin=0.2, xmax=0.75, color="black", linestyle=":", linewidth=1,
                         label="paper F: plateau of FP16 nearest")
            if oversample == 2:
                axes.plot([-20], [244], label="paper F: FP16 stochastic", **PAPER)
        axes.text((powers[0] + powers[-1]) / 2, first, "above the line: failed\n(X with all seeds, x with some)", fontsize=8, color="0.4",
                  ha="center", va="bottom")
        axes.set_yscale("log")
        axes.set_ylim(0.8, paper_y * 2)
        axes.set_xticks(powers, labels=[str(power) for power in powers], fontsize=8)
        axes.set_xlabel("k: A and b times 2^k")
        axes.set_ylabel("residual over that of FP32")
        axes.set_title(system, fontsize=10)
        axes.grid(color="0.9")
    return finish(figure, grid.flat, lines, f"16-bit sketches of systems times powers of two, d = {oversample:g} n, {lines[0]['hash']} hash")


def draw_range(plt, lines):
    """A figure for every d / n and hash; names tell the hash where there are two."""
    figures = {}
    for name in values(lines, "hash"):
        panel = where(lines, hash=name)
        suffix = f"_{name}" if len(values(lines, "hash")) > 1 else ""
        for oversample in sorted({ratio(line) for line in panel}):
            figures[f"range_{oversample:g}n{suffix}"] = draw_range_of(plt, [line for line in panel if ratio(line) == oversample], oversample)
    return figures


# ---- study geometry -------------------------------------------------------------------------------------------------------

def draw_distortion(plt, lines, head):
    """Distortion over coherence, a panel for every d / n and hash."""
    chosen = [line for line in where(lines, head=head, precision="fp32")]
    ratios, hashes = sorted({round(ratio(line)) for line in chosen}), [name for name in HASH_LINES if where(chosen, hash=name)]
    if not chosen or len(values(chosen, "coherence")) < 2:
        return None
    figure, grid = plt.subplots(len(ratios), len(hashes), figsize=(4.2 * len(hashes), 3.2 * len(ratios)), squeeze=False, sharex=True)
    for row, oversample in zip(grid, ratios):
        for axes, name in zip(row, hashes):
            panel = [line for line in where(chosen, hash=name) if round(ratio(line)) == oversample]
            for zeta in sorted({int(line["zeta"]) for line in where(panel, family="sparsestack")}):
                spread_line(axes, where(panel, family="sparsestack", zeta=str(zeta)), lambda line: number(line, "coherence"), "distortion",
                            color=ZETA_COLOURS.get(zeta, "0.4"), marker=ZETA_MARKERS.get(zeta, "x"), label=f"zeta = {zeta}")
            lost = [line for line in panel if int(line["rank_losses"] or 0) > 0]  # a lost direction has |sigma^2 - 1| = 1: unseen
            axes.plot([number(line, "coherence") for line in lost], [number(line, "distortion_median") for line in lost], color="black",
                      marker="o", markersize=10, markerfacecolor="none", linestyle="none", label="rank lost with some seeds or all")
            for blocks, line_style in (("interleaved", "-"), ("contiguous", "--")):
                for kappa in values(where(panel, input_blocks=blocks), "kappa"):
                    spread_line(axes, where(panel, input_blocks=blocks, kappa=kappa), lambda line: number(line, "coherence"), "distortion",
                                color="#5b8f5b", marker="P", linestyle=line_style, label=f"BlockPerm, kappa = {kappa}, {blocks}")
            if panel:
                axes.axhline(number(panel[0], "gaussian_distortion_median"), color="0.5", linestyle=":", label="dense Gaussian S")
            axes.set_title(f"d = {oversample} n, {name} hash", fontsize=10)
            axes.set_xlabel("leverage of the head rows")
            axes.set_ylabel("max |sigma^2 - 1|")
            axes.grid(color="0.9")
    return finish(figure, grid.flat, chosen, f"Distortion from low coherence to coordinate rows, head: {head} rows")


def draw_half_distortion(plt, lines):
    """Distortion of 16-bit sketches minus that of the FP32 sketch of the same seed, over coherence, by both definitions."""
    chosen = [line for line in where(lines, family="sparsestack") if line.get("minus_fp32_median")]
    precisions = [name for name in ("fp16", "bf16") if where(chosen, precision=name)]
    if not precisions:
        return None
    definitions = (("minus_fp32", "max |sigma^2 - 1|"), ("length_minus_fp32", "max |sigma - 1|"))
    figure, grid = plt.subplots(len(precisions), 2, figsize=(9, 3.8 * len(precisions)), squeeze=False, sharey="row")
    for row, precision in zip(grid, precisions):
        for axes, (column, definition) in zip(row, definitions):
            panel = where(chosen, precision=precision)
            for oversample, marker in zip(sorted({round(ratio(line)) for line in panel}), "osD^v<>Px*"):
                for zeta in sorted({int(line["zeta"]) for line in panel}):
                    points = [line for line in where(panel, zeta=str(zeta)) if round(ratio(line)) == oversample]
                    axes.plot([number(line, "coherence") for line in points], [number(line, column + "_median") for line in points],
                              color=ZETA_COLOURS.get(zeta, "0.4"), marker=marker, markersize=4, linestyle="none",
                              label=f"zeta = {zeta}, d = {oversample} n")
            if precision == "fp16":
                for sign in (1, -1):
                    axes.axhline(sign * 7.8e-4, color="black", linestyle=":", label="paper F: largest of its medians, FP16")
            axes.set_title(f"{precision}, distortion = {definition}", fontsize=10)
            axes.set_xlabel("leverage of the head rows")
            axes.grid(color="0.9")
        row[0].set_ylabel("distortion minus that of FP32 (median)")
    hashes = " and ".join(values(chosen, "hash"))
    return finish(figure, grid.flat, chosen, f"16-bit sketches of orthonormal bases: change in distortion, {hashes} hash")


def draw_geometry(plt, lines):
    """A figure for every kind of head, and one of 16-bit sketches."""
    figures = {f"geometry_{head}": draw_distortion(plt, lines, head) for head in values(lines, "head")}
    halves = draw_half_distortion(plt, lines)
    return {**figures, "geometry_half": halves} if halves else figures


# ---- study coherence ------------------------------------------------------------------------------------------------------

FAMILIES = {"sparsestack": ("SparseStack", "#1f5f8b"), "blockperm": ("BlockPerm", "#5b8f5b"),
            "flashblockrow": ("FlashBlockRow (reads few rows)", "#e0a030"), "gaussian": ("dense Gaussian", "#8a8a8a")}
KERNELS = {"strip": ("strip engine", "o"), "scatter": ("scatter", "s"), "flash": ("paper B's kernel", "P"), "spmm": ("cuSPARSE", "^"),
           "gaussian": ("cuBLAS", "D"), "blockrow": ("", "v")}


def draw_tasks(plt, lines, kind):
    """Error against time of every sketch, a panel a task; the front of those that none beats in both."""
    timed = [line for line in where(lines, kind=kind) if line["time_ms"] and line["error_median"]]
    tasks = values(timed, "task")
    if not tasks:
        return None
    figure, grid = plt.subplots(math.ceil(len(tasks) / 2), min(2, len(tasks)), figsize=(4.6 * min(2, len(tasks)), 3.5 * math.ceil(len(tasks) / 2)),
                                squeeze=False)
    for axes in list(grid.flat)[len(tasks):]:
        axes.set_visible(False)
    for axes, task in zip(grid.flat, tasks):
        panel = where(timed, task=task)
        for family, (label, colour) in FAMILIES.items():
            for kernel in values(where(panel, family=family), "kernel"):
                points = where(panel, family=family, kernel=kernel)
                name, marker = KERNELS.get(kernel, ("", "o"))
                axes.plot([number(line, "time_ms") for line in points], [number(line, "error_median") for line in points], color=colour,
                          marker=marker, markersize=5, markerfacecolor="none" if kernel == "spmm" else colour, linestyle="none", alpha=0.7,
                          label=f"{label}, {name}" if name and values(panel, "backend") != ["host"] else label)
        front = sorted(where(panel, pareto="yes"), key=lambda line: number(line, "time_ms"))
        axes.plot([number(line, "time_ms") for line in front], [number(line, "error_median") for line in front], color="black",
                  linewidth=1, label="Pareto front")
        floor = [number(line, "error_unsketched") for line in panel if line.get("error_unsketched")]
        if floor and max(floor) > 0:
            axes.axhline(max(floor), color="0.5", linestyle=":", label="without a sketch")
        axes.set_xscale("log")
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
        axes.set_xlabel("time of the sketch (ms)")
        axes.set_ylabel("error (median)")
        axes.set_title(task, fontsize=10)
        axes.grid(color="0.9")
    return finish(figure, list(grid.flat)[:len(tasks)], timed, f"Tasks of paper B on {kind} data: quality against time")


def draw_coherences(plt, lines):
    """mu_blk and mu_nbr of BlockPerm over kappa, a panel a kind of data."""
    chosen = [line for line in where(lines, family="blockperm") if line["block_coherence"] and line["kappa"]]
    chosen = [line for line in chosen if line["task"] == chosen[0]["task"]]
    kinds = values(chosen, "kind")
    if not kinds:
        return None
    figure, grid = plt.subplots(1, len(kinds), figsize=(4.4 * len(kinds), 3.6), squeeze=False)
    for axes, kind in zip(grid[0], kinds):
        panel = where(chosen, kind=kind)
        blocks = sorted({(line["input_blocks"], int(line["d"]) // int(line["block_rows"])) for line in panel})
        shades = plt.get_cmap("viridis")
        for place, (name, count) in enumerate(blocks):
            of_kappa = {int(line["kappa"]): line for line in panel if line["input_blocks"] == name and
                        int(line["d"]) // int(line["block_rows"]) == count}
            points = [of_kappa[kappa] for kappa in sorted(of_kappa)]
            x, colour = sorted(of_kappa), shades(place / max(1, len(blocks)))
            spread_line(axes, points, lambda line: int(line["kappa"]), "neighbourhood_coherence", color=colour, marker="o",
                        label=f"mu_nbr, {name}, M = {count}")
            axes.plot(x, [number(line, "block_coherence") / int(line["kappa"]) for line in points], color=colour, linestyle=":",
                      linewidth=1, label="mu_blk / kappa, its least")
        ticks = sorted({int(line["kappa"]) for line in panel})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("kappa")
        axes.set_ylabel("coherence (1: evenly spread)")
        axes.set_title(kind, fontsize=10)
        axes.grid(color="0.9")
    return finish(figure, grid.flat, chosen, "Block and neighbourhood coherence (paper B, definition 6.1)")


def draw_coherence(plt, lines):
    """A figure of tasks for every kind of data, and one of coherences."""
    figures = {f"coherence_{kind}": draw_tasks(plt, lines, kind) for kind in values(lines, "kind")}
    return {**figures, "coherence_mu": draw_coherences(plt, lines)}


# ---- the program ----------------------------------------------------------------------------------------------------------

STUDIES = {"geometry": ({"coherence", "distortion_median", "head"}, draw_geometry),
           "coherence": ({"task", "pareto", "map_ms"}, draw_coherence),
           "lstsq": ({"excess_median", "method", "expected_excess"}, draw_lstsq),
           "range": ({"power", "over_fp32_median", "flushed_median"}, draw_range)}


def by_size(lines):
    """Lines of one m and n together, each with what its figures' names end in: nothing where there is one size alone."""
    sizes = list(dict.fromkeys((line["m"], line["n"]) for line in lines))
    return [("" if len(sizes) == 1 else f"_{m}x{n}", where(lines, m=m, n=n)) for m, n in sizes]


def draw(studies, folder):
    """Writes all figures, PNG and SVG; their paths."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tallsketch"  # the same results give the same file
    from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    paths = []
    for study, lines in studies.items():
        for suffix, of_size in by_size(lines):
            for name, figure in STUDIES[study][1](plt, of_size).items():
                if figure is None:
                    print(f"left out: {name}{suffix}: nothing of it in these files", file=sys.stderr)
                    continue
                for kind in ("png", "svg"):
                    paths.append(os.path.join(folder, f"{name}{suffix}.{kind}"))
                    figure.savefig(paths[-1], dpi=130, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None)
                plt.close(figure)
    return paths


def parse(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description="Draws the CSV files of tallsketch study.")
    parser.add_argument("files", nargs="+", metavar="X.csv", help="results of tallsketch study ... -o X.csv, of any studies")
    parser.add_argument("--out", default=".", metavar="FOLDER", help="folder for the figures (default: here)")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    try:
        studies = read_lines(options.files)
        os.makedirs(options.out, exist_ok=True)
        print("drawn:", *draw(studies, options.out))
    except StudyError as error:
        print(f"plot_study: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"plot_study: cannot write: {error}", file=sys.stderr)
        return 3
    except ImportError as error:
        print(f"plot_study: {error}; install python3-matplotlib", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
