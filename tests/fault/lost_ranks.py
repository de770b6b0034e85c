#!/usr/bin/python3
"""A rank that is killed, stopped, hangs or fails alone, in each stage of a solve: every process ends within the deadline, with a code that
is not 0, one message that names the stage (and the rank, where no launcher does), and no file.

Faults are those of src/fault.h. Run by CTest as fault.lost_ranks; on GPUs by hand, with TALLSKETCH_TEST_RANKS=2 (all runs on two
ranks, one run at a time) and the cuda build's program in TALLSKETCH.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fault_runs import FaultRun, check_end  # noqa: E402  pylint: disable=C0413
from script_runs import Checks, Folder, in_parallel, run  # noqa: E402  pylint: disable=C0413

TIMEOUT = 3  # seconds, of --timeout
# Beyond it: start of the job, 2 s for the roll call, 4 s where nobody answers, mpirun's end of a stopped process; and the
# other jobs on this machine.
DEADLINE = TIMEOUT + 30
STAGES = ("open", "devices", "sketch", "reduce", "factor", "refine", "refine#3", "write")
PROBLEM = ["--kind", "uniform", "--rows", 5000, "--cols", 6, "--seed", 3]
TOLD = []  # messages of each run in which a rank was killed
RANKS = int(os.environ.get("TALLSKETCH_TEST_RANKS", "0"))  # of all runs; 0: two to four
TERM, KILLED_BY_9 = "stopped by signal TERM", 137


def check_fault(checks, folder, case):
    """One fault, in a run of its own."""
    rank, stage, action, ranks, extra = case
    name = f"{action} of rank {rank} of {ranks} in {stage}" + (f", {' '.join(map(str, extra))}" if extra else "")
    arguments = ["solve", *PROBLEM, "-o", "x.h5", "--quiet", "--timeout", TIMEOUT, *extra]
    fault_run = FaultRun(folder, name, f"{rank}:{stage}:{action}", arguments, ranks)
    check_end(checks, name, fault_run, DEADLINE, kept=["c.h5"] if extra else [])
    done, errors = fault_run.done, fault_run.errors
    stage = stage.split("#", maxsplit=1)[0]
    if action == "kill":
        # mpirun names the rank and ends the others, of which rank 0 tells the stage; with a checkpoint it would save itself, but
        # the others wait for the one that is lost until mpirun ends them for good.
        checks.check(f"{name}: mpirun's code", done.code == KILLED_BY_9, fault_run)
        told = done.err.count(f"signal TERM in stage '{stage}'")
        checks.check(f"{name}: at most one message, of the stage", len(errors) <= 1 and told == done.err.count("signal TERM"),
                     fault_run)
        if rank != 0:
            TOLD.append(told)
        return
    checks.check(f"{name}: code 8", done.code == 8, fault_run)
    if action == "alone":
        checks.check(f"{name}: one message, with the rank, and nobody waits for --timeout", len(errors) == 1 and
                     f"[rank {rank} on" in errors[0], fault_run)
        return
    overdue = [line for line in errors if TERM not in line]  # a stopped rank wakes up by mpirun's TERM
    named = f"rank {rank} on"
    checks.check(f"{name}: one message, with stage and rank", any(f"stage '{stage}'" in line for line in overdue) and
                 (len(overdue) == 1 and named in overdue[0] or (rank, action) == (0, "stop")), fault_run)


def check_slow(checks, folder):
    """A rank that works for longer than --timeout, a little at a time: the others wait for it, and the job ends well."""
    name = "rank 1 of 3 reads slowly"
    made = run(["generate", "p.h5", "--kind", "uniform", "--rows", 6000, "--cols", 6], cwd=folder)
    checks.check("a problem", made.code == 0, made)
    arguments = ["solve", os.path.join(folder, "p.h5"), "-o", "x.h5", "--quiet", "--timeout", 2, "--chunk-rows", 200]
    fault_run = FaultRun(folder, name, "1:sketch:slow", arguments, 3)
    check_end(checks, name, fault_run, DEADLINE, kept=["x.h5"])
    checks.check(f"{name}: slower than the time-out, and solved", fault_run.done.code == 0 and fault_run.done.seconds > 4 and
                 not fault_run.errors, fault_run)


def main():
    """All cases."""
    checks = Checks()
    cases = [(rank, stage, action, ranks, ()) for action in ("kill", "hang", "stop") for stage in STAGES
             for rank, ranks in ((1, 2), (0, 3), (3, 4))]
    cases += [(rank, stage, "alone", ranks, ()) for stage in ("open", "reduce", "refine#3", "write")
              for rank, ranks in ((1, 2), (0, 3), (3, 4))]
    cases += [(2, "sketch", "hang", 3, ("--checkpoint", "c.h5")), (1, "refine#2", "kill", 3, ("--checkpoint", "c.h5"))]
    cases += [(1, "reduce", "kill", 2, ("--method", "sketch-solve", "--reduce", "fp16"))]
    if RANKS:
        cases = list(dict.fromkeys((min(rank, RANKS - 1), stage, action, RANKS, extra) for rank, stage, action, _, extra in cases))
    with Folder() as folder:
        # These runs wait more than they compute, unless they share GPUs.
        in_parallel(lambda case: check_fault(checks, folder, case), cases, workers=1 if RANKS else 4)
        # mpirun kills a rank that did not end within a second of TERM, and then may not pass on its last words.
        checks.check("most kills are told by rank 0", sum(TOLD) >= len(TOLD) / 2, TOLD)
        check_slow(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
