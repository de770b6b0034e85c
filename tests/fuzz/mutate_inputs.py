#!/usr/bin/python3
"""Runs tallsketch on damaged inputs: .npy files, HDF5 files, checkpoints, sketch files, command lines. No run may crash, hang,
leave files, use memory without bound, end with an undocumented code or without a message, or write a wrong x (judge.py).

Run by CTest as fuzz.*, each on a small corpus that is the same every time. By hand, for as long as one likes:

    tests/fuzz/mutate_inputs.py --seconds 600 --seed 7 --output found
    tests/fuzz/mutate_inputs.py --only npy --inputs 500
    tests/fuzz/mutate_inputs.py --only hdf5 --seed 7 --index 812 --output found     # one input again, kept

Input number i of a kind follows from the seed, the kind and i alone. Findings are kept below --output, each in a folder with
its files and `command`.
"""
import argparse
import collections
import concurrent.futures
import itertools
import os
import random
import shlex
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from judge import error_lines, judge  # noqa: E402
import script_runs  # noqa: E402  pylint: disable=C0413
from script_runs import MPIEXEC, PROGRAM, run_command  # noqa: E402  pylint: disable=C0413
from regressions import COUNTS, regressions  # noqa: E402
from valid_inputs import FIXED_TIME, Case, ValidInputs  # noqa: E402

KINDS = ("npy", "hdf5", "checkpoint", "sketch", "cli")
# Address space: the program and its libraries take less than 1 GB of it on a file of a few kB. Not where a sanitizer maps terabytes.
MEMORY = 0 if os.environ.get("ASAN_OPTIONS") or os.environ.get("TSAN_OPTIONS") else 4 << 30
FILE_BYTES = 64 << 20
BATCH = 16
# One rank needs neither orted nor a network: a tenth of the time to start. Open MPI's names; others ignore them.
# Such a rank takes itself for the only one of the machine, so each worker gives it a folder for its session.
ALONE = {"OMPI_MCA_ess_singleton_isolated": "1", "OMPI_MCA_btl": "self", "OMPI_MCA_pml": "ob1"}

_VALID = None  # of a worker


def begin(seed, folder, wanted, limit):
    """Makes the valid inputs of this process; limit: seconds, after which a run hangs."""
    script_runs.LIMIT_SECONDS = limit
    global _VALID  # pylint: disable=global-statement
    ALONE["OMPI_MCA_orte_tmpdir_base"] = os.path.join(folder, f"mpi.{os.getpid()}")
    os.mkdir(ALONE["OMPI_MCA_orte_tmpdir_base"])
    _VALID = ValidInputs(seed, os.path.join(folder, f"valid.{os.getpid()}"), PROGRAM, wanted)


def command_of(case):
    """The whole command, with its limits."""
    limits = ["prlimit", f"--fsize={FILE_BYTES}", "--core=0"] + ([f"--as={MEMORY}"] if MEMORY else [])
    quiet = [] if case.kind == "cli" else ["--quiet"]
    command = [*limits, PROGRAM, *case.arguments, *quiet]
    return [MPIEXEC, "-n", str(case.ranks), *command] if case.ranks > 1 else command


class Result:
    """What became of one input."""

    def __init__(self, kind, index, name, code, seconds, verdict, message):
        self.kind, self.index, self.name, self.code, self.seconds = kind, index, name, code, seconds
        self.verdict, self.message = verdict, message


def try_input(kind, index, seed, top, output, keep):
    """Makes, runs and judges one input."""
    if index < 0:
        case = regressions(kind, _VALID, Case)[-1 - index]
    else:
        case = _VALID.case(kind, random.Random(f"{seed}/{kind}/{index}"))
    folder = os.path.join(top, f"{kind}.{index}")
    os.mkdir(folder)
    ValidInputs.write(folder, case.files)
    command = command_of(case)
    done = run_command(command, cwd=folder, environment=ALONE if case.ranks == 1 else None)
    verdict = judge(case, folder, done)
    message = (error_lines(done) or [""])[0]
    if verdict or keep:
        kept = os.path.join(output, f"{kind}.{seed}.{index}")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        ValidInputs.write(kept, case.files)
        with open(os.path.join(kept, "command"), "w", encoding="utf-8", errors="replace") as file:
            told = f"{kind} {index} of seed {seed}: {case.name}\n{verdict}\n{done}".replace("\n", "\n# ")
            variables = [f"{name}={value}" for name, value in ALONE.items() if "tmpdir" not in name] if case.ranks == 1 else []
            file.write(f"touch -d @{FIXED_TIME} *.h5  # checkpoints know their input by it\n"
                       f"{shlex.join(['env', *variables, *command])}\n# {told}\n")
    shutil.rmtree(folder, ignore_errors=True)
    return Result(kind, index, case.name, done.code, done.seconds, verdict, message)


def try_batch(arguments):
    """A few inputs by one process."""
    return [try_input(*one) for one in arguments]


class Table:
    """Counts of outcomes by kind."""

    def __init__(self):
        self.outcomes = collections.defaultdict(collections.Counter)
        self.findings, self.slowest = [], None

    def add(self, result):
        self.outcomes[result.kind][result.code] += 1
        if self.slowest is None or result.seconds > self.slowest.seconds:
            self.slowest = result
        if result.verdict:
            self.findings.append(result)
            print(f"FINDING {result.kind} {result.index} ({result.name}): {result.verdict}\n    {result.message[:300]}", flush=True)

    def show(self, seconds):
        """The table in Markdown."""
        codes = sorted({code for counts in self.outcomes.values() for code in counts}, key=str)
        names = ["hang" if code is None else f"code {code}" for code in codes]
        print(f"| input | tried | {' | '.join(names)} | findings |\n|{'---|' * (len(codes) + 3)}")
        for kind, counts in self.outcomes.items():
            found = sum(result.kind == kind for result in self.findings)
            print(f"| {kind} | {sum(counts.values())} | {' | '.join(str(counts[code]) for code in codes)} | {found} |")
        total = sum(sum(counts.values()) for counts in self.outcomes.values())
        print(f"{total} inputs in {seconds:.0f} s, {len(self.findings)} findings; the slowest took {self.slowest.seconds:.1f} s "
              f"({self.slowest.kind} {self.slowest.index})")


def batches(options, top):
    """Kinds in turn, so that a run of any length tries all."""
    kinds = options.only or KINDS
    if options.index is not None:
        yield [(kinds[0], options.index, options.seed, top, options.output, True)]
        return
    if options.regressions:
        for kind in kinds:
            yield [(kind, -1 - k, options.seed, top, options.output, False) for k in range(COUNTS.get(kind, 0))]
    for first in itertools.count(options.first, BATCH):
        last = first + BATCH if options.inputs is None else min(first + BATCH, options.first + options.inputs)
        if first >= last:
            return
        for kind in kinds:
            yield [(kind, index, options.seed, top, options.output, False) for index in range(first, last)]


def run_all(options, top):
    """All batches, a few at a time, until they or the seconds are over."""
    table, start = Table(), time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(options.workers, initializer=begin,
                                                initargs=(options.seed, top, options.only or KINDS, options.limit)) as pool:
        running = set()
        for batch in batches(options, top):
            if options.seconds is not None and time.monotonic() - start > options.seconds:
                break
            running.add(pool.submit(try_batch, batch))
            while len(running) > options.workers:
                done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    for result in future.result():
                        table.add(result)
        for future in concurrent.futures.as_completed(running):
            for result in future.result():
                table.add(result)
    table.show(time.monotonic() - start)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="decides everything (default: 1)")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--inputs", type=int, help="of each kind (default: without end if --seconds is given, else 60)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--index", type=int, help="only this input, of the first kind of --only; it is kept")
    parser.add_argument("--only", action="append", choices=KINDS, help="again for more kinds (default: all)")
    parser.add_argument("--output", default="fuzz-findings", help="folder of findings (default: fuzz-findings)")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a run hangs (default: 60)")
    parser.add_argument("--regressions", action="store_true", help="first, what once went wrong (numbers below 0)")
    parser.add_argument("--workers", type=int, default=4, help="runs at a time: a run waits more than it works (default: 4)")
    options = parser.parse_args()
    if options.inputs is None and options.seconds is None:
        options.inputs = 60
    options.output = os.path.abspath(options.output)
    print(f"seed {options.seed}, {', '.join(options.only or KINDS)}")
    top = tempfile.mkdtemp(prefix="tallsketch-fuzz-")
    try:
        table = run_all(options, top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if table.findings:
        print(f"findings are kept in {options.output}")
    return 1 if table.findings else 0


if __name__ == "__main__":
    sys.exit(main())
