#!/usr/bin/python3
"""A rank that is killed, stopped or hangs, in each stage of a solve: every process ends within the deadline, with a code that
is not 0, one message that names the stage (and the rank, where no launcher does), and no file.

Faults are those of src/fault.h. Run by CTest as fault.lost_ranks; on GPUs by hand, with TALLSKETCH_TEST_RANKS=2 (all runs on two
ranks, one run at a time) and the cuda build's program in TALLSKETCH.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, in_parallel, run  # noqa: E402  pylint: disable=C0413

TIMEOUT = 3  # seconds, of --timeout
# Beyond it: start of the job, 2 s for the roll call, 4 s where nobody answers, mpirun's end of a stopped process; and the
# other jobs on this machine.
DEADLINE = TIMEOUT + 30
STAGES = ("open", "devices", "sketch", "reduce", "factor", "refine", "refine#3", "write")
PROBLEM = ["--kind", "uniform", "--rows", 5000, "--cols", 6, "--seed", 3]
RANKS = int(os.environ.get("TALLSKETCH_TEST_RANKS", "0"))  # of all runs; 0: two to four
TERM, KILLED_BY_9 = "stopped by signal TERM", 137


def processes_of(mark):
    """Numbers of the live processes whose environment has the mark."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    found.append(int(entry))
        except (OSError, ValueError):
            pass  # no process, or gone meanwhile
    return found


def all_gone(mark):
    """Whether no process is left; what mpirun ends is given a moment."""
    end = time.monotonic() + 5
    while processes_of(mark) and time.monotonic() < end:
        time.sleep(0.1)
    return not processes_of(mark)


def check_fault(checks, folder, case):
    """One fault, in a run of its own."""
    rank, stage, action, ranks, extra = case
    name = f"{action} of rank {rank} of {ranks} in {stage}" + (f", {' '.join(map(str, extra))}" if extra else "")
    place = os.path.join(folder, name.replace(" ", "_").replace("#", "-").replace("/", "-"))
    os.mkdir(place)
    mark = f"TALLSKETCH_TEST_MARK={os.getpid()}:{name}"
    key, value = mark.split("=", 1)
    done = run(["solve", *PROBLEM, "-o", "x.h5", "--quiet", "--timeout", TIMEOUT, *extra], ranks=ranks, cwd=place,
               environment={"TALLSKETCH_FAULT": f"{rank}:{stage}:{action}", key: value})
    stage = stage.split("#", maxsplit=1)[0]
    checks.check(f"{name}: the fault happened", "fault injected" in done.err, done)
    checks.check(f"{name}: ends in time", done.code is not None and done.seconds < DEADLINE, done)
    checks.check(f"{name}: no process is left", all_gone(mark), f"{processes_of(mark)} {done}")
    kept = [file for file in os.listdir(place) if file != "c.h5"]
    checks.check(f"{name}: no file", not kept, f"{kept} {done}")
    errors = [line for line in done.err.splitlines() if line.startswith("tallsketch: error:")]
    if action == "kill":
        # mpirun names the rank and ends the others, of which rank 0 tells the stage; with a checkpoint it would save itself, but
        # the others wait for the one that is lost until mpirun ends them for good.
        checks.check(f"{name}: mpirun's code", done.code == KILLED_BY_9, done)
        told = done.err.count(f"signal TERM in stage '{stage}'")
        checks.check(f"{name}: one message, of the stage", len(errors) <= 1 and (told == 1 or rank == 0), done)
        return
    checks.check(f"{name}: code 8", done.code == 8, done)
    overdue = [line for line in errors if TERM not in line]  # a stopped rank wakes up by mpirun's TERM
    named = f"rank {rank} on"
    checks.check(f"{name}: one message, with stage and rank", any(f"stage '{stage}'" in line for line in overdue) and
                 (len(overdue) == 1 and named in overdue[0] or (rank, action) == (0, "stop")), done)


def main():
    """All cases."""
    checks = Checks()
    cases = [(1, stage, "kill", 3, ()) for stage in STAGES if stage not in ("factor", "write")]
    cases += [(0, stage, "kill", 3, ()) for stage in ("factor", "write")]
    cases += [(rank, "reduce", action, ranks, ()) for action in ("stop", "hang") for rank, ranks in ((1, 2), (0, 3), (3, 4))]
    cases += [(2, stage, action, 3, ()) for action in ("stop", "hang") for stage in ("open", "devices", "sketch", "refine#3")]
    cases += [(2, "sketch", "hang", 3, ("--checkpoint", "c.h5")), (1, "refine#2", "kill", 3, ("--checkpoint", "c.h5"))]
    cases += [(1, "reduce", "kill", 2, ("--method", "sketch-solve", "--reduce", "fp16"))]
    if RANKS:
        cases = list(dict.fromkeys((min(rank, RANKS - 1), stage, action, RANKS, extra) for rank, stage, action, _, extra in cases))
    with Folder() as folder:
        # These runs wait more than they compute, unless they share GPUs.
        in_parallel(lambda case: check_fault(checks, folder, case), cases, workers=1 if RANKS else 4)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
