#!/usr/bin/python3
"""Every exit code that can be reached from the command line, each with its one message, on 1 and 3 ranks.

Checked of each failing run: the code of mpirun; one line "tallsketch: error: ..." with the thing, the value and the fix,
and nothing else from any rank; no output, no temporary file; the report, strict JSON, on every exit but 2; an end within
60 s. Rows C-xx: cases of public bug reports. Run by CTest as cli.exit_codes.
"""
import os
import subprocess
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import script_runs  # noqa: E402  pylint: disable=C0413
from script_runs import CUDA, Checks, Folder, in_parallel, run, strict_json  # noqa: E402  pylint: disable=C0413

SEED = 7
M, N = 2003, 7
MADE_UP = ["inspect", "--kind", "uniform", "--rows", "10G", "--cols", "1024"]
ONE_PASS, SKETCHED = ["--method", "sketch-solve"], ["--preconditioner", "sketch"]  # else: refine, as the program likes
STATUS = {0: "solved", 3: "input_error", 4: "non_finite", 5: "rank_deficient", 7: "out_of_memory",
          8: "communication_error", 9: "output_failed"}


class Case:
    """arguments   of tallsketch; "@name" is a file of the shared folder
    words       each must be in the message
    ranks       to run it on
    report      False: no --report is added (another subcommand, or the report is the point); "-": on standard output
    output      False: no -o is added
    creates     files that a run may leave beside the report
    prefix      before the program; environment, stdout: of the run
    """

    def __init__(self, name, code, arguments, words=(), ranks=(1, 3), report=None, output=True, creates=(),
                 **how):
        self.name, self.code, self.arguments, self.words, self.ranks = name, code, arguments, words, ranks
        self.report = arguments[:1] == ["solve"] if report is None else report
        self.output, self.creates, self.how = output, set(creates), how


def write(path, **datasets):
    """datasets: name = value, or name = (value, keywords of create_dataset)."""
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            data, keywords = value if isinstance(value, tuple) else (value, {})
            file.create_dataset(name, data=data, **keywords)


def damage_last_chunk(path, name):
    """Overwrites the middle of the last chunk of a dataset, so that its filter fails."""
    with h5py.File(path, "r") as file:
        info = file[name].id.get_chunk_info(file[name].id.get_num_chunks() - 1)
    with open(path, "r+b") as file:
        file.seek(info.byte_offset + info.size // 2)
        file.write(b"\xff" * (info.size // 2))


def make_inputs(folder):
    """Writes the shared input files; returns sizes that messages must name."""
    rng = np.random.default_rng(SEED)
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    a = rng.standard_normal((M, N)).astype("f4")
    b = rng.standard_normal(M).astype("f4")
    write(at("good.h5"), A=a, b=b)
    os.mkdir(at("folder"))
    open(at("empty.h5"), "wb").close()  # pylint: disable=consider-using-with
    with open(at("text.h5"), "w", encoding="ascii") as file:
        file.write("1 2 3\n" * 100)
    write(at("whole.h5"), A=rng.standard_normal((17000, N)).astype("f4"), b=np.zeros(17000, "f4"))
    with open(at("whole.h5"), "rb") as whole, open(at("cut.h5"), "wb") as cut:  # C-09
        cut.write(whole.read(60000))
    np.save(at("a.npy"), a)
    np.save(at("b.npy"), b)
    with open(at("a.npy"), "rb") as whole, open(at("cut.npy"), "wb") as cut:
        cut.write(whole.read(5000))
    with open(at("a.npy"), "rb") as whole, open(at("header.npy"), "wb") as changed:
        changed.write(whole.read().replace(b"'shape'", b"'shope'"))
    np.save(at("complex.npy"), a.astype("c8"))
    np.save(at("rank3.npy"), a.reshape(M, N, 1))
    np.save(at("records.npy"), np.zeros(9, [("x", "f4"), ("y", "i4")]))
    np.savez(at("archive.npz"), A=a)
    with open(at("old.mat"), "wb") as file:
        file.write(b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(128) + bytes(1000))
    write(at("across.h5"), A=np.ascontiguousarray(a.T), b=b)  # C-11
    write(at("matlab.h5"), A=np.ascontiguousarray(a.T), b=b[None, :])
    write(at("nothing.h5"), A=np.array([0, 0], "u8"), b=b)
    with h5py.File(at("matlab.h5"), "r+") as file:
        file["A"].attrs["MATLAB_class"] = np.bytes_("single")
    with h5py.File(at("nothing.h5"), "r+") as file:
        file["A"].attrs["MATLAB_empty"] = 1
    write(at("b_across.h5"), A=a, b=b[None, :])
    write(at("chunked.h5"), A=(a, {"chunks": (64, N), "compression": "gzip"}), b=b)
    write(at("chunked_b.h5"), A=a, b=(b, {"chunks": (64,)}))
    write(at("text_b.h5"), A=a, b=np.array([b"1"] * M))
    write(at("complex.h5"), A=a.astype("c8"), b=b)
    write(at("long.h5"), A=a.astype(np.longdouble), b=b)
    write(at("rank3.h5"), A=a.reshape(M, N, 1), b=b)
    write(at("scalar.h5"), A=np.float32(1), b=b)
    write(at("lzf.h5"), A=(a, {"compression": "lzf"}), b=b)  # C-06: only h5py knows it
    with h5py.File(at("unwritten.h5"), "w") as file:
        file.create_dataset("A", (M, N), "f4")
        file["b"] = b
    with h5py.File(at("unwritten_chunks.h5"), "w") as file:
        file.create_dataset("A", (M, N), "f4", chunks=(64, N))
        file["b"] = b
    layout = h5py.VirtualLayout((M, N), "f4")
    layout[...] = h5py.VirtualSource(at("good.h5"), "A", shape=(M, N))
    with h5py.File(at("virtual.h5"), "w") as file:
        file.create_virtual_dataset("A", layout)
        file["b"] = b
    with h5py.File(at("external.h5"), "w") as file:
        file.create_dataset("A", data=a, external=[(at("external.raw"), 0, h5py.h5f.UNLIMITED)])
        file["b"] = b
    with h5py.File(at("linked.h5"), "w") as file:
        file["A"] = h5py.ExternalLink(at("good.h5"), "/A")
        file["b"] = b
    with h5py.File(at("dangling.h5"), "w") as file:
        file["A"] = h5py.SoftLink("/nowhere")
        file["b"] = b
    write(at("short_b.h5"), A=a, b=b[:-1])
    write(at("no_rows.h5"), A=a[:0], b=b[:0])  # C-43
    write(at("no_columns.h5"), A=a[:, :0], b=b)
    write(at("no_b_columns.h5"), A=a, b=np.zeros((M, 0), "f4"))
    write(at("narrow.h5"), A=a[:, :5], b=b)
    write(at("double.h5"), A=a.astype("f8"), b=b)
    write(at("square.h5"), A=a[:N], b=b[:N])
    write(at("wide.h5"), A=a[:10].repeat(3, axis=1)[:, :20], b=b[:10])  # C-32
    for name, keywords in (("gzip", {"compression": "gzip"}), ("fletcher32", {"fletcher32": True})):
        write(at(f"damaged_{name}.h5"), A=(a, {"chunks": (64, N), **keywords}), b=b)
        damage_last_chunk(at(f"damaged_{name}.h5"), "A")

    last = a.copy()  # C-27
    last[M - 1, N - 1] = np.nan
    write(at("nan_last.h5"), A=last, b=b)
    write(at("nan_last_f8.h5"), A=last.astype("f8"), b=b)
    write(at("nan_last_f2.h5"), A=last.astype(">f2"), b=b)
    several = a.copy()
    several[5, 2] = several[9, 0] = np.inf
    several[1800, 6] = -np.inf
    write(at("inf_several.h5"), A=(several, {"chunks": (100, 3), "compression": "gzip"}), b=b)
    b_inf = b.copy()
    b_inf[1700] = np.inf
    write(at("inf_b.h5"), A=a, b=b_inf)
    b2 = np.stack([b, b], axis=1)
    b2[3, 1] = np.nan
    write(at("nan_b2.h5"), A=a, b=b2)
    huge = a.astype("f8")
    huge[1234, 3] = 1e300
    write(at("huge.h5"), A=huge, b=b)
    huge[9, 1] = np.nan
    write(at("nan_huge.h5"), A=huge, b=b)
    b_huge = b.astype("f8")
    b_huge[77] = -1e39
    write(at("huge_b.h5"), A=a, b=b_huge)
    write(at("overflow.h5"), A=np.full((M, 1), 3e38, "f4"), b=b)

    rows = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], "f4")
    write(at("rank2.h5"), A=rows, b=rows[:, 0])  # C-25
    write(at("rank2_f2.h5"), A=rows.astype("f2"), b=rows[:, 0])
    zero = rng.standard_normal((1000, 20)).astype("f4")
    zero[:, [0, 13]] = 0
    write(at("zero_columns.h5"), A=zero, b=zero[:, 1])  # C-26
    zero[-1, 0] = zero[-3, 13] = 2
    write(at("late_columns.h5"), A=zero, b=zero[:, 1])
    twice = a.copy()
    twice[:, 4] = 2 * twice[:, 1]
    write(at("twice.h5"), A=twice, b=b)
    write(at("all_zero.h5"), A=np.zeros((50, 2), "f4"), b=np.ones(50, "f4"))
    return os.path.getsize(at("whole.h5"))


def usage_cases():
    """Exit 2: nothing is read, nothing written, no report."""
    good = ["solve", "@good.h5"]
    cases = [
        Case("no subcommand", 2, [], ["subcommand"]),
        Case("unknown subcommand", 2, ["resolve", "@good.h5"], ["resolve"]),
        Case("unknown option", 2, [*good, "--frobnicate"], ["--frobnicate"]),
        Case("misspelt option", 2, [*good, "--overample", "2"], ["--overample"]),
        Case("abbreviated option", 2, [*good, "--over", "2"], ["--over"]),
        Case("missing file argument", 2, ["solve"], ["FILE"]),
        Case("option without its value", 2, [*good, "--seed"], ["--seed"]),
        Case("unknown option, no file", 2, ["solve", "--frobnicate"], ["--frobnicate"], ranks=(1,)),
        Case("option twice", 2, [*good, "--seed", "1", "--seed", "2"], ["--seed"]),
        Case("two that exclude each other", 2, [*good, "--sketch-rows", "64", "--oversample", "2"],
             ["--sketch-rows", "--oversample"]),
        Case("quiet and verbose", 2, [*good, "--quiet", "--verbose"], ["--quiet"]),
        Case("sketch rows no multiple of zeta", 2, [*good, "--sketch-rows", "30"],
             ["--sketch-rows 30", "zeta = 4", "use 32", "--hash independent"]),
        Case("sketch rows below zeta", 2, [*good, "--sketch-rows", "8", "--zeta", "9", "--hash", "independent"],
             ["--sketch-rows 8", "zeta = 9"]),
        Case("kappa above the blocks", 2, [*good, "--sketch", "blockperm", "--kappa", "3", "--sketch-rows", "256"],
             ["--kappa 3", "2 blocks", "d = 256"]),
        Case("zeta with blockperm", 2, [*good, "--sketch", "blockperm", "--zeta", "4"], ["--zeta", "blockperm", "--kappa"]),
        Case("kappa with sparsestack", 2, [*good, "--kappa", "2"], ["--kappa", "sparsestack", "--zeta"]),
        Case("block nonzeros that do not divide", 2, [*good, "--sketch", "blockperm", "--block-nnz", "3"],
             ["--block-nnz 3", "--block-rows 128"]),
        Case("sketch rows no multiple of the block", 2, [*good, "--sketch", "blockperm", "--sketch-rows", "200"],
             ["--sketch-rows 200", "--block-rows 128", "use 256"]),
        Case("a deal too large", 2, [*good, "--sketch", "blockperm", "--block-nnz", "1", "--kappa", "1021",
                                     "--oversample", "20000"], ["--kappa 1021", "--block-rows 128"]),
        Case("x and report are one file, spelled differently", 2, ["solve", "@good.h5", "-o", "@same.h5", "--report", "@./same.h5"],
             ["same file"], output=False, report=False),
        Case("d equals n", 2, ["solve", "@narrow.h5", "--sketch-rows", "5", "--hash", "independent"],
             ["d = 5", "n = 5", "--oversample"]),
        Case("d below n", 2, [*good, "--sketch-rows", "4"], ["d = 4", "n = 7", "--sketch-rows 8"]),
        Case("wide", 2, ["solve", "@wide.h5"], ["10 rows", "20 columns", "transpose"]),  # C-32
        Case("stored (n, m)", 2, ["solve", "@across.h5"], ["7 rows", "2003 columns", "--transpose"]),  # C-11
        Case("written by MATLAB", 2, ["solve", "@matlab.h5"], ["7 rows", "2003 columns", "MATLAB", "--transpose"]),
        Case("transposed for nothing", 2, [*good, "--transpose"], ["7 rows", "2003 columns", "leave --transpose out"]),
        Case("chunks read directly", 2, ["solve", "@chunked.h5", "--io", "direct"],
             ["--io direct", "/A", "chunked (64 x 7), gzip", "--io mpio"]),
        Case("chunks of b read directly", 2, ["solve", "@chunked_b.h5", "--io", "direct"], ["--io direct", "/b", "chunked (64)"]),
        Case(".npy without b", 2, ["solve", "@a.npy"], ["/b", "--b FILE.npy"]),
        Case("a name inside .npy", 2, ["solve", "@a.npy:/A", "--b", "@b.npy"], ["a.npy", "one array", ":/A"]),
        Case("output is the .npy of b", 2, [*good, "--b", "@b.npy", "-o", "@b.npy"], ["b.npy", "input"]),
        Case("output is the input", 2, [*good, "-o", "@good.h5"], ["good.h5", "input"]),
        Case("output is the input by another path", 2, [*good, "-o", "@folder/../good.h5"], ["good.h5", "input"]),
        Case("output is the file of b", 2, ["solve", "@double.h5", "--b", "@good.h5:/b", "-o", "@good.h5"],
             ["good.h5", "input"]),
        Case("report is the input", 2, [*good, "--report", "@good.h5"], ["--report", "input"], report=False),
        Case("report is the output", 2, [*good, "-o", "same", "--report", "same"], ["--report", "same"], report=False),
        Case("rows on the device of the host backend", 2, [*good, "--backend", "host", "--residency", "device"], ["--residency host"]),
        Case("fp16 on the host backend", 2, [*good, "--backend", "host", "--precision", "fp16"], ["fp16", "fp32"]),
        Case("bf16 on the host backend", 2, [*good, "--backend", "host", "--precision", "bf16"], ["bf16", "fp32"]),
        Case("rounding without 16 bits", 2, [*good, "--rounding", "stochastic"],
             ["--rounding stochastic", "--precision fp32", "fp16 or bf16"]),
        Case("rounding with fp32", 2, [*good, "--rounding", "dither", "--precision", "fp32"],
             ["--rounding dither", "fp16 or bf16"]),
        Case("an fp64 sketch reduced in fp16", 2, [*good, "--precision", "fp64", "--reduce", "fp16"],
             ["--reduce fp16", "--precision fp64", "leave --reduce out"]),
        Case("standard errors of a ridge", 2, [*good, "--standard-errors", "--ridge", "1"], ["--standard-errors", "--ridge"]),
        Case("standard errors of one pass", 2, [*good, "--standard-errors", *ONE_PASS],
             ["--standard-errors", "--method refine"]),
        Case("standard errors of a square matrix", 2, ["solve", "@square.h5", "--standard-errors"],
             ["--standard-errors", "more rows than columns", "7 x 7"]),
        Case("a preconditioner without passes", 2, [*good, "--preconditioner", "gram", *ONE_PASS],
             ["--preconditioner", "--method refine"]),
        *(Case(f"the Gram matrix by {word}", 2, [*good, "--preconditioner", "gram", "--reduced-solver", word],
               ["--preconditioner gram", f"--reduced-solver {word}", "--preconditioner sketch"]) for word in ("qr", "svd")),
        Case("bench of roundings that fp32 has not", 2, ["bench", "sketch", "--backend", "host", "--rounding", "dither"],
             ["--rounding", "fp16 or bf16"], ranks=(1,), any_stderr=True),
    ]
    if not CUDA:
        cases.append(Case("cuda in a host build", 2, [*good, "--backend", "cuda"], ["--backend", "CUDA", "host"]))
    values = {
        "--zeta": ["0", "-1", "four", "1025", "99999999999999999999"], "--hash": ["sorted", ""],
        "--sketch": ["flash"], "--kappa": ["0", "-1"], "--block-nnz": ["0"], "--block-rows": ["0", "65537"],
        "--input-blocks": ["mixed"],
        "--rounding": ["up", ""], "--reduce": ["bf16", "fp64"],
        "--oversample": ["1", "0.5", "-2", "nan", "inf", "2x", "1e7"], "--sketch-rows": ["0", "-64", "1073741825", "1.5"],
        "--seed": ["-1", "x", "18446744073709551616"], "--chunk-rows": ["-5", "many", "1.5.2"],
        "--memory": ["lots", "-1", "1Q"], "--residency": ["tape", ""], "--timeout": ["-1", "soon", "5y"], "--method": ["lsqr"], "--precision": ["fp8"],
        "--ridge": ["-1", "nan", "inf", "-inf", "1e301", "much"], "--tol": ["0", "1", "-1e-9", "nan", "inf", "1e-9x"],
        "--max-iters": ["-1", "1.5", "1000001"], "--rank-deficient": ["warn"], "--preconditioner": ["jacobi"],
        "--reduced-solver": ["lu"], "--io": ["posix", ""], "--data-precision": ["fp16"], "--check-rows": ["-1", "4097", "1.5"],
        "--backend": ["gpu"], "--comm": ["tcp"], "--sketch": ["gaussian"], "--scaling": ["rows"],
    }
    for option, wrong in values.items():
        for k, value in enumerate(wrong):
            cases.append(Case(f"{option} {value!r}", 2, [*good, f"{option}={value}"], [option],
                              ranks=(1, 3) if k == 0 else (1,)))
    generate = ["generate", "new.h5"]
    sized = [*generate, "--rows", "90", "--cols", "4"]
    cases += [
        Case("generate without sizes", 2, generate, ["--rows"]),
        Case("generate more columns than rows", 2, [*generate, "--rows", "3", "--cols", "4"], ["--rows 3", "--cols 4"]),
        Case("generate no columns", 2, [*generate, "--rows", "3", "--cols", "0"], ["--cols 0"]),
        Case("generate more shards than rows", 2, [*generate, "--rows", "5", "--cols", "2", "--shards", "6"],
             ["--shards 6", "5"]),
        Case("solve without a source", 2, ["solve"], ["FILE", "--kind"]),
        Case("solve a file and a kind", 2, ["solve", "@good.h5", "--kind", "uniform", "--rows", "9", "--cols", "2"],
             ["FILE", "--kind"]),
        Case("solve a kind without sizes", 2, ["solve", "--kind", "uniform"], ["--kind", "--rows"]),
        Case("solve a kind, more columns than rows", 2, ["solve", "--kind", "uniform", "--rows", "3", "--cols", "4"],
             ["--rows 3", "--cols 4"]),
        Case("generate unknown kind", 2, [*sized, "--kind", "cauchy"], ["--kind", "cauchy", "gaussian"]),
        Case("generate unknown type", 2, [*sized, "--dtype", "f16"], ["--dtype", "f16"], ranks=(1,)),
        Case("generate cond below 1", 2, [*sized, "--cond", "0.5"], ["--cond"], ranks=(1,)),
        Case("generate rank 0", 2, [*sized, "--kind", "lowrank", "--rank", "0"], ["--rank", "'0' is no number from 1"], ranks=(1,)),
        Case("generate negative noise", 2, [*sized, "--noise", "-1"], ["--noise", "'-1' is no number from 0 to 1e+30"], ranks=(1,)),
        Case("generate half a row a chunk", 2, [*sized, "--chunk-rows", "1.5"], ["--chunk-rows", "'1.5' is no size"], ranks=(1,)),
        Case("generate no shards", 2, [*sized, "--shards", "0"], ["--shards"], ranks=(1,)),
        Case("inspect without file", 2, ["inspect"], ["FILE"], ranks=(1,)),
        Case("inspect for minus one ranks", 2, ["inspect", "@good.h5", "--ranks", "-1"], ["--ranks"], ranks=(1,)),
        Case("inspect for an unknown GPU", 2, [*MADE_UP, "--gpus", "b200"], ["--gpus", "b200", "h200|h100|a100|host"], ranks=(1,)),
        Case("inspect a list of ranks of no GPU", 2, [*MADE_UP, "--ranks", "1,2"], ["--ranks", "--gpus"]),
        Case("inspect nodes of no GPU", 2, [*MADE_UP, "--nodes", "2"], ["--nodes", "--gpus"], ranks=(1,)),
        Case("inspect more nodes than ranks", 2, [*MADE_UP, "--gpus", "h200", "--ranks", "4,8", "--nodes", "9"], ["--nodes 9", "--ranks 8", "1 to 8"]),
        Case("inspect minus one rank in a list", 2, [*MADE_UP, "--gpus", "h200", "--ranks", "4,-1"], ["--ranks"], ranks=(1,)),
        *(Case(f"inspect --ranks '{given}'", 2, [*MADE_UP, "--gpus", "h200", "--ranks", given], ["--ranks", *words], ranks=(1,))
          for given, words in (("4,", ["'' in '4,'"]), (",4", ["'' in ',4'"]), ("4,x", ["'x' in '4,x'"]), ("4 8", ["'4 8'"]), ("1k", ["'1k'"]),
                               ("4,8,4", ["'4,8,4' names 4 twice"]), ("1048577", ["1048576"]), ("4,0", ["--gpus h200", "1 or more"]))),
        Case("inspect GPUs without a number of ranks", 2, [*MADE_UP, "--gpus", "h100"], ["--gpus h100", "--ranks 1,2,4,8"]),
        Case("inspect the host without a number of ranks", 2, [*MADE_UP, "--gpus", "host", "--ranks", "0"], ["--gpus host", "--ranks 8"]),
        Case("inspect threads of GPUs", 2, [*MADE_UP, "--gpus", "h200", "--ranks", "4", "--threads", "8"], ["--threads 8", "--gpus host"]),
        Case("inspect threads of no GPU", 2, [*MADE_UP, "--threads", "8"], ["--threads", "--gpus"], ranks=(1,)),
        Case("inspect threads below zero", 2, [*MADE_UP, "--gpus", "host", "--ranks", "4", "--threads", "-1"], ["--threads"], ranks=(1,)),
        Case("inspect more memory than a GPU has", 2, [*MADE_UP, "--gpus", "h200", "--ranks", "4", "--memory", "500G"],
             ["--memory 500000000000", "h200", "142557MiB"], any_stdout=True),
        Case("inspect nodes below zero", 2, [*MADE_UP, "--gpus", "h200", "--nodes", "-1"], ["--nodes"], ranks=(1,)),
        Case("inspect a backend and GPUs", 2, [*MADE_UP, "--gpus", "h200", "--backend", "host"], ["--backend", "--gpus"], ranks=(1,)),
        Case("inspect JSON of no GPU", 2, [*MADE_UP, "--json"], ["--json", "--gpus"], ranks=(1,)),
        *(Case(f"inspect {option} {value}", 2, [*MADE_UP, "--gpus", "h200", option, value], [option, value], ranks=(1,))
          for option in ("--net-gb-per-s", "--net-latency-us", "--file-gb-per-s") for value in ("0", "-1", "nan", "fast")),
        Case("inspect all files at less than nothing", 2, [*MADE_UP, "--gpus", "h200", "--all-files-gb-per-s", "-1"],
             ["--all-files-gb-per-s"], ranks=(1,)),
        Case("bench without topic", 2, ["bench"], ["subcommand"], ranks=(1,)),
        Case("bench rows and bytes", 2, ["bench", "sketch", "--rows", "9", "--bytes", "9"], ["--rows", "--bytes"], ranks=(1,)),
        Case("bench of nothing that exists", 2, ["bench", "sketch", "--family", "sparsestack", "--kernel", "flash"],
             ["nothing to measure", "blockperm"], ranks=(1,), any_stderr=True),
        Case("study without topic", 2, ["study"], ["subcommand"], ranks=(1,)),
        Case("study of a basis too wide", 2, ["study", "geometry", "--rows", "10", "--cols", "6"], ["--rows 10", "--cols 6"],
             any_stderr=True),
        Case("study with more kappa than blocks", 2, ["study", "geometry", "--kappa", "3"], ["--kappa 3", "2 blocks"], ranks=(1,),
             any_stderr=True),
        Case("study into a missing folder", 9, ["study", "geometry", "--rows", "100", "--cols", "8", "-o", "@none/x.csv"],
             ["none/x.csv", "No such file"]),
        Case("bench on several ranks", 2, ["bench", "passes"], ["3 run", "without mpirun"], ranks=(3,)),
    ]
    for option, wrong in {"--zeta": ["0", "-4"], "--cols": ["0", "-3"], "--oversample": ["0.5", "nan", "-1", "1e99"],
                          "--bytes": ["0", "100"], "--repeats": ["0"], "--hash": ["sorted"], "--rows": ["0", "4294967296"],
                          "--sketch-rows": ["0", "63"], "--family": ["gaussian"], "--kappa": ["0"], "--block-nnz": ["0"],
                          "--block-rows": ["65537"], "--input-blocks": ["odd"], "--kernel": ["cusparse"]}.items():
        cases += [Case(f"bench sketch {option} {value}", 2, ["bench", "sketch", f"{option}={value}"], [option[2:]],
                       ranks=(1,), any_stderr=True) for value in wrong]
    for option, wrong in {"--coherence": ["-0.1", "1.1", "nan"], "--seeds": ["0"], "--zeta": ["0"], "--oversample": ["1", "auto"],
                          "--head": ["last"], "--sketch": ["gauss"]}.items():
        cases += [Case(f"study geometry {option} {value}", 2, ["study", "geometry", f"{option}={value}"], [option[2:]],
                       ranks=(1,), any_stderr=True) for value in wrong]
    return cases


def input_cases(whole_bytes):
    """Exit 3, and m < n as it depends on the file."""
    def solve(name, words, *more, **how):
        return Case(name, 3, ["solve", f"@{name}", *more], [name, *words], **how)

    return [
        solve("missing.h5", ["No such file"]),
        Case("missing in a missing folder", 3, ["solve", "@none/missing.h5"], ["missing.h5", "No such file"], output=False),
        solve("empty.h5", ["empty", "0 bytes"]),
        solve("text.h5", ["not an HDF5 file", "600 bytes"]),
        solve("folder", ["is a directory"]),
        Case("device", 3, ["solve", "/dev/null", "-o", "x.h5"], ["/dev/null", "not a regular file"]),
        solve("cut.h5", ["truncated", f"60000 of {whole_bytes} bytes"]),  # C-09
        solve("good.h5", ["/matrix", "/A, /b", "--a"], "--a", "/matrix"),
        Case("wrong name of b", 3, ["solve", "@good.h5", "--b", "/rhs"], ["/rhs", "/A, /b", "--b"]),
        Case("missing file of b", 3, ["solve", "@good.h5", "--b", "@none.h5:/b"], ["none.h5", "No such file"]),
        Case("a group for A", 3, ["solve", "@good.h5", "--a", "/"], ["good.h5"], ranks=(1,)),
        solve("text_b.h5", ["/b", "text", "float32", "astype"]),
        Case("cut .npy", 3, ["solve", "@cut.npy", "--b", "@b.npy"],
             ["cut.npy", "truncated", f"5000 of {M * N * 4 + 128} bytes"]),
        Case("malformed .npy", 3, ["solve", "@header.npy", "--b", "@b.npy"], ["header.npy", "malformed", "shope"]),
        Case("complex .npy", 3, ["solve", "@complex.npy", "--b", "@b.npy"], ["complex.npy", "<c8", "astype"], ranks=(1,)),
        Case("rank 3 .npy", 3, ["solve", "@rank3.npy", "--b", "@b.npy"], ["rank3.npy", "3 dimensions"], ranks=(1,)),
        Case("records .npy", 3, ["solve", "@records.npy", "--b", "@b.npy"], ["records.npy", "structured"], ranks=(1,)),
        Case("missing b.npy", 3, ["solve", "@good.h5", "--b", "@none.npy"], ["none.npy", "No such file"]),
        Case("archive of numpy", 3, ["solve", "@archive.npz"], ["archive.npz", "numpy.save"], ranks=(1,)),
        Case("old MATLAB file", 3, ["solve", "@old.mat"], ["old.mat", "-v7.3"], ranks=(1,)),
        Case("an empty MATLAB matrix", 3, ["solve", "@nothing.h5"], ["/A", "MATLAB"], ranks=(1,)),
        Case("b stored across", 3, ["solve", "@b_across.h5"], ["/b", "(r, m)"], ranks=(1,)),
        Case("shards of two types, HDF5 and .npy", 3, ["solve", "@double.h5", "@a.npy", "--b", "@b.npy"],
             ["shards", "float32", "float64", "a.npy"], ranks=(1,)),
        solve("complex.h5", ["/A", "complex"], ranks=(1,)),
        solve("long.h5", ["/A", "128-bit"], ranks=(1,)),
        solve("rank3.h5", ["3 dimensions", "(m, n)"]),
        solve("scalar.h5", ["0 dimensions"], ranks=(1,)),
        solve("lzf.h5", ["lzf", "h5repack -f GZIP=1"]),  # C-06
        solve("unwritten.h5", ["/A", "never written"]),
        solve("unwritten_chunks.h5", ["/A", "never written"]),
        solve("virtual.h5", ["virtual", "h5repack"]),
        solve("external.h5", ["external", "h5repack"]),
        solve("linked.h5", ["/A", "link", "good.h5"]),
        solve("dangling.h5", ["/A"]),
        solve("short_b.h5", ["2003", "2002", "/b"]),
        solve("no_rows.h5", ["/A", "no rows", "(0, 7)"], ranks=(1, 3)),  # C-43
        solve("no_columns.h5", ["/A", "no columns"], ranks=(1,)),
        solve("no_b_columns.h5", ["/b", "no columns"], ranks=(1,)),
        Case("shards of different widths", 3, ["solve", "@good.h5", "@narrow.h5"], ["shards", "(2003, 7)", "(2003, 5)"]),
        Case("shards of different types", 3, ["solve", "@good.h5", "@double.h5"], ["shards", "float32", "float64"]),
        Case("second shard missing", 3, ["solve", "@good.h5", "@missing.h5"], ["missing.h5"]),
        solve("damaged_gzip.h5", ["rows", "/A"]),  # only the last rank meets it (C-23)
        solve("damaged_fletcher32.h5", ["rows", "/A"]),
        Case("inspect of a missing file", 3, ["inspect", "@missing.h5"], ["missing.h5"]),
        Case("a name that is too long", 3, ["solve", "n" * 300 + ".h5"], ["n" * 300, "File name too long"]),
        Case("escape sequence in a name", 3, ["solve", "bad\x1b[31m\nname.h5", "-o", "x.h5"], ["name.h5"]),
    ]


def value_cases():
    """Exits 4, 5, 7."""
    def solve(code, name, words, *more, **how):
        return Case(name, code, ["solve", f"@{name}", *more], words, **how)

    last = ["A has 1 ", f"row {M - 1}, column {N - 1} ", "/A"]
    return [
        solve(4, "nan_last.h5", [*last, "nan_last.h5"]),
        solve(4, "nan_last.h5", last, "--chunk-rows", "100", ranks=(3,)),
        solve(4, "nan_last_f8.h5", last),
        solve(4, "nan_last_f2.h5", last),
        solve(4, "inf_several.h5", ["A has 3 ", "row 5, column 2 "]),
        solve(4, "inf_b.h5", ["b has 1 ", "row 1700, column 0 ", "/b"]),
        solve(4, "nan_b2.h5", ["b has 1 ", "row 3, column 1 ", "/b"]),
        *(solve(4, name, [*words, "--scaling auto"], "--scaling", "none", *more) for more in (ONE_PASS, SKETCHED)
          for name, words in (("huge.h5", ["A has 1 ", "float32", "row 1234, column 3 "]),
                              ("huge_b.h5", ["b has 1 ", "float32", "row 77, column 0 "]), ("overflow.h5", ["overflow"]))),
        solve(4, "huge.h5", ["A has 1 ", "row 1234, column 3 ", "float64 rounded to float32", "--data-precision stored"],
              "--data-precision", "fp32"),
        solve(4, "huge.h5", ["Gram matrix overflowed", "--scaling auto"], "--scaling", "none"),  # 1e300 squared
        solve(4, "nan_huge.h5", ["A has 1 ", "row 9, column 1 "]),
        solve(4, "nan_huge.h5", ["A has 1 ", "row 9, column 1 "], "--precision", "fp64"),
        # FP64 has no trouble with 1e39.
        *(solve(0, name, [], "-o", "x.h5", "--scaling", "none", creates=["x.h5"]) for name in ("huge_b.h5", "overflow.h5")),
        *(solve(0, name, [], "-o", "x.h5", *more, creates=["x.h5"]) for more in ([], ONE_PASS, SKETCHED)
          for name in ("huge.h5", "huge_b.h5", "overflow.h5")),
        solve(0, "huge.h5", [], "-o", "x.h5", *ONE_PASS, "--precision", "fp64", "--scaling", "none", creates=["x.h5"]),
        *(solve(5, name, [*words, "--rank-deficient min-norm"], *more) for more in ([], ONE_PASS, SKETCHED)
          for name, words in (("rank2.h5", ["rank 2 of 3", "column 2 "]),  # C-25
                              ("rank2_f2.h5", ["rank 2 of 3", "column 2 "]),
                              ("zero_columns.h5", ["rank 18 of 20", "columns 0, 13 "]),  # C-26
                              ("twice.h5", ["rank 6 of 7", "column 4 "]), ("all_zero.h5", ["rank 0 of 2", "columns 0, 1 "]))),
        *(solve(0, name, [], "-o", "x.h5", "--rank-deficient", "min-norm", creates=["x.h5"])
          for name in ("rank2.h5", "zero_columns.h5", "twice.h5", "all_zero.h5")),
        solve(7, "good.h5", ["1000 B", "use more --memory or fewer columns"], "--memory", "1k"),
        solve(7, "good.h5", ["1000 B", "--memory", "--oversample"], "--memory", "1k", "--preconditioner", "sketch"),
        solve(7, "good.h5", ["--chunk-rows"], "--memory", "200k", "--chunk-rows", "2003", ranks=(1,)),
        solve(7, "whole.h5", ["--residency file", "--memory"], "--memory", "100k", "--residency", "host"),
        solve(0, "good.h5", [], "-o", "x.h5", "--memory", "1.5G", ranks=(1,), creates=["x.h5"]),
        *(Case(f"inspect --ranks {ranks}: none fits", 7, [*MADE_UP, "--gpus", "h200", "--ranks", ranks, "--residency", "device"],
               [words, "12.4 TiB", "more ranks"], any_stdout=True) for ranks, words in (("3", "--ranks 3 does not fit"), ("3,2", "none of --ranks 3,2 fits; on 3 ranks"))),
        Case("inspect too many columns for a GPU", 7, [*MADE_UP[:-1], "200k", "--gpus", "h200", "--ranks", "64"],
             ["fewer columns", "more ranks or smaller chunks do not help"], any_stdout=True),
        Case("inspect with little memory", 7, ["inspect", "@good.h5", "--memory", "1k"], ["--memory"], any_stdout=True),
        solve(0, "late_columns.h5", [], "-o", "x.h5", creates=["x.h5"]),  # C-26: zero on all ranks but the last
    ]


def communication_cases():
    """Exit 8."""
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4"}
    open_mpi = {"OMPI_COMM_WORLD_SIZE": "2"}
    good = ["solve", "@good.h5", "-o", "x.h5"]
    return [
        Case("C-12: srun with the wrong PMI", 8, good, ["4 tasks", "1 rank", "--mpi=pmix", "--ignore-launcher"],
             ranks=(1,), environment=slurm),
        Case("C-24: mpirun of another MPI", 8, good, ["2 tasks", "1 rank", "--version", "--ignore-launcher"],
             ranks=(1,), environment=open_mpi),
        Case("generate under the wrong launcher", 8, ["generate", "new.h5", "--rows", "9", "--cols", "2"],
             ["4 tasks", "1 rank"], ranks=(1,), environment=slurm),
        Case("C-12 overridden", 0, [*good, "--ignore-launcher"], ranks=(1,), environment=slurm, creates=["x.h5"]),
        Case("C-24 overridden", 0, [*good, "--ignore-launcher"], ranks=(1,), environment=open_mpi, creates=["x.h5"]),
        Case("sbatch and mpirun", 0, good, environment={"SLURM_STEP_NUM_TASKS": "1"}, creates=["x.h5"]),
        Case("launcher is no matter for --version", 0, ["--version"], ranks=(1,), environment=slurm, any_stdout=True),
    ]


def output_cases(folder):
    """Exit 9, and what may not be touched. The file-size limit and the full disk give errno texts."""
    def solve(name, words, *more, **how):
        return Case(name, 9, ["solve", "@good.h5", *more], words, **how)

    limit = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash"]
    cases = [
        solve("folder of the output missing", ["none/x.h5", "No such file"], "-o", "none/x.h5"),
        solve("output is a folder", ["folder", "not a regular file"], "-o", "@folder"),
        solve("output is a device", ["/dev/full", "not a regular file"], "-o", "/dev/full"),
        solve("folder of the report missing", ["none/r.json", "No such file"], "-o", "x.h5", "--report", "none/r.json",
              report=False),
        solve("report is a folder", ["folder", "not a regular file"], "-o", "x.h5", "--report", "@folder", report=False),
        solve("C-10: limit of the file size", ["x.h5", "File too large"], "-o", "x.h5", "--report", "-", report="-",
              prefix=limit, ranks=(3,)),  # not below mpirun, the limit would hit Open MPI's own files
        Case("generate into a missing folder", 9, ["generate", "none/g.h5", "--rows", "9", "--cols", "2"],
             ["none/g.h5", "No such file"]),
        Case("generate onto a folder", 9, ["generate", "@folder", "--rows", "9", "--cols", "2"], ["not a regular file"],
             ranks=(1,)),
        Case("generate beyond the limit of the file size", 9, ["generate", "g.h5", "--rows", "9k", "--cols", "2"],
             ["g.h5", "File too large"], prefix=limit, ranks=(3,), any_stderr=True),
    ]
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk], check=False,
                      stderr=subprocess.DEVNULL).returncode == 0:
        cases += [
            solve("C-10: disk full", ["x.h5", "No space left"], "-o", "@disk/x.h5", ranks=(1,)),
            solve("C-10: disk full, 3 ranks", ["x.h5", "No space left"], "-o", "@disk/x.h5", ranks=(3,)),
            Case("generate onto a full disk", 9, ["generate", "@disk/g.h5", "--rows", "9k", "--cols", "2"],
                 ["g.h5", "No space left"], ranks=(3,)),
            # 1000 rows of 2 bytes of A and 4 of b: one page would hold b in float16, too. No ".tmp" in the name: told
            # before anything is made.
            Case("generate onto a disk with room for A, not for b", 9,
                 ["generate", "@disk/g.h5", "--rows", "1k", "--cols", "1", "--dtype", "f2"], ["g.h5':", "No space left"],
                 ranks=(1,)),
        ]
        return cases, disk
    print("left out: a full disk (no mount of a tmpfs here); the limit of the file size stands in for it")
    return cases, None


def check_report(checks, name, case, ranks, text, message):
    """The report of a failing or solved run: strict JSON that agrees with the exit and says why values are null."""
    try:
        report = strict_json(text)
    except ValueError as error:
        checks.check(f"{name}: the report is strict JSON", False, f"{error}\n{text[:2000]}")
        return
    checks.check(f"{name}: status and exit_code of the report", report["exit_code"] == case.code and
                 report["status"] == STATUS[case.code], text)
    if case.code:
        shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in report["message"] or "?")
        checks.check(f"{name}: the report holds the message", shown in message, text)
        if case.code != 9:  # there x was found, and lost
            checks.check(f"{name}: not converged", report["solver"]["converged"] is False, text)
        checks.check(f"{name}: comm.size of the report", report["comm"]["size"] == ranks, text)
        checks.check(f"{name}: nulls have a reason", any("null" in warning for warning in report["warnings"]), text)


def check_case(checks, shared, case, ranks, folder):
    """Runs a case in a folder of its own and checks all that the docstring lists."""
    name = f"{case.name}, exit {case.code}, {ranks} rank{'s' if ranks > 1 else ''}"
    arguments = [word.replace("@", shared + "/", 1) if "@" in word[:1] else word for word in case.arguments]
    if case.report is True:
        arguments += ["--report", "r.json"]
    if arguments and arguments[0] == "solve" and case.output and "-o" not in arguments:
        arguments += ["-o", "x.h5"]
    if arguments and arguments[0] in ("solve", "generate") and "--quiet" not in arguments:
        arguments.append("--quiet")
    how = dict(case.how)
    any_stderr, any_stdout = how.pop("any_stderr", False), how.pop("any_stdout", False)
    done = run(arguments, ranks=ranks, cwd=folder, **how)
    if not checks.check(f"{name}: the code, in time", done.code == case.code, done):
        return
    own = done.own_lines()
    errors = [line for line in own if line.startswith("tallsketch: error: ")]
    message = errors[0] if errors else ""
    if case.code:
        checks.check(f"{name}: one error line", len(errors) == 1, done)
        checks.check(f"{name}: the error is on stderr", not done.out.strip() or case.report == "-" or any_stdout, done)
        if not any_stderr and not any_stdout and case.report != "-":
            checks.check(f"{name}: nothing but the error", own == errors, done)
        for word in case.words:
            checks.check(f"{name}: the message has '{word}'", word in message, done)
        checks.check(f"{name}: no control characters", message.isprintable(), repr(message))
    elif not any_stdout:
        checks.check(f"{name}: --quiet says nothing", not own, done)
    expected = set(case.creates)
    if case.report is True and case.code != 2:
        expected.add("r.json")
    left = set(os.listdir(folder))
    if checks.check(f"{name}: leaves {sorted(expected) or 'nothing'}", left == expected, f"left {left}\n{done}"):
        if "r.json" in expected:
            with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
                check_report(checks, name, case, ranks, file.read(), message)
    if case.report == "-" and case.code != 2:
        check_report(checks, name, case, ranks, done.out, message)


def check_watchdog(checks, folder):
    """A stage that overruns ends the job with code 8: here a limit of a microsecond, which any stage overruns."""
    for ranks in (1, 3):
        done = run(["solve", os.path.join(folder, "whole.h5"), "-o", os.path.join(folder, "late.x.h5"), "--quiet",
                    "--timeout", "0.000001"], ranks=ranks, cwd=folder)
        errors = [line for line in done.own_lines() if line.startswith("tallsketch: error: ")]
        checks.check(f"watchdog, {ranks} ranks: code 8", done.code == 8, done)
        checks.check(f"watchdog, {ranks} ranks: says stage and --timeout", errors and
                     all("stage '" in line and "--timeout" in line for line in errors), done)
        checks.check(f"watchdog, {ranks} ranks: no output", not os.path.exists(os.path.join(folder, "late.x.h5")))


def check_standard_output(checks, folder):
    """A report that standard output does not take is code 9; x was written before and stays."""
    with open("/dev/full", "wb") as full:
        done = run(["solve", os.path.join(folder, "good.h5"), "-o", os.path.join(folder, "full.x.h5"), "--report", "-",
                    "--quiet"], cwd=folder, stdout=full)
    checks.check("report to a full standard output: code 9 and why", done.code == 9 and
                 "cannot write the report to standard output" in done.err, done)
    os.remove(os.path.join(folder, "full.x.h5"))
    with open("/dev/full", "wb") as full:
        done = run(["bench", "sketch", "--backend", "host", "--cols", "8", "--bytes", "1M", "--repeats", "1", "--quiet"],
                   cwd=folder, stdout=full)
    checks.check("bench into a full standard output: code 9", done.code == 9 and "standard output" in done.err, done)


def check_not_converged(checks, folder):
    """A refinement that does not converge is code 6: x and the report are written, and say so."""
    for ranks in (1, 3):
        x, report = os.path.join(folder, "six.x.h5"), os.path.join(folder, "six.json")
        done = run(["solve", os.path.join(folder, "good.h5"), *SKETCHED, "--max-iters", 2, "--tol", "1e-14",
                    "-o", x, "--report", report], ranks=ranks, cwd=folder)
        errors = [line for line in done.own_lines() if line.startswith("tallsketch: error: ")]
        checks.check(f"not converged, {ranks} ranks: code 6, one message with the fix", done.code == 6 and len(errors) == 1 and
                     "--max-iters" in errors[0] and "step limit" in errors[0], done)
        with open(report, encoding="utf-8") as file:
            value = strict_json(file.read())
        checks.check(f"not converged, {ranks} ranks: report", value["status"] == "not_converged" and value["exit_code"] == 6 and
                     value["solver"]["converged"] is False and value["solver"]["backward_error"] > 1e-14, value)
        with h5py.File(x, "r") as file:
            checks.check(f"not converged, {ranks} ranks: x is written", np.isfinite(file["x"][()]).all())
        os.remove(x)
        os.remove(report)


def check_old_output(checks, folder):
    """A run that fails leaves an older output as it was."""
    old = os.path.join(folder, "old.x.h5")
    with open(old, "w", encoding="ascii") as file:
        file.write("older")
    for name, code in (("nan_last.h5", 4), ("twice.h5", 5), ("damaged_gzip.h5", 3)):
        done = run(["solve", os.path.join(folder, name), "-o", old, "--quiet"], ranks=2, cwd=folder)
        with open(old, encoding="ascii") as file:
            checks.check(f"older output after exit {code}: untouched", done.code == code and file.read() == "older", done)
    os.remove(old)


def files_of(folder, but):
    """Name to size and time of the last change; the full disk, where files come and go, is looked at by itself."""
    return {entry.name: (entry.stat(follow_symlinks=False).st_size, entry.stat(follow_symlinks=False).st_mtime_ns)
            for entry in os.scandir(folder) if entry.path != but}


def main():
    one_rank = sys.argv[1:] == ["--one-rank"]  # of each case; the suite of sanitizers, where a start takes long
    if one_rank:
        script_runs.LIMIT_SECONDS = 240
    checks = Checks()
    print(f"data seed {SEED}")
    with Folder() as top:
        shared = os.path.join(top, "inputs")
        os.mkdir(shared)
        whole_bytes = make_inputs(shared)
        outputs, disk = output_cases(shared)
        try:
            # With sanitizers every fourth of those that end before anything is read: they are many, and alike.
            cases = [*usage_cases()[::4 if one_rank else 1], *input_cases(whole_bytes), *value_cases(), *communication_cases(), *outputs]
            jobs = []
            for case in cases:
                for ranks in case.ranks[:1] if one_rank else case.ranks:
                    jobs.append((case, ranks, os.path.join(top, f"run.{len(jobs)}")))
                    os.mkdir(jobs[-1][2])
            before = files_of(shared, but=disk)
            # Four at a time: mpirun sleeps a second after a rank that failed.
            in_parallel(lambda job: check_case(checks, shared, *job), jobs, workers=4)
            # Not case by case: while a file is being opened, Open MPI keeps NAME.locktest.RANK beside it.
            after = files_of(shared, but=disk)
            checks.check("the inputs, and what stands beside them, are as they were", after == before,
                         dict(set(after.items()) ^ set(before.items())))
            check_standard_output(checks, shared)
            check_not_converged(checks, shared)
            check_old_output(checks, shared)
            if disk:
                checks.check("a full disk keeps nothing", not os.listdir(disk), os.listdir(disk))
            check_watchdog(checks, shared)
            print(f"{len(jobs)} runs")
        finally:
            if disk:
                subprocess.run(["umount", disk], check=False)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
