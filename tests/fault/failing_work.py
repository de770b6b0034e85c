#!/usr/bin/python3
"""Work that fails on one rank, in each stage of a solve: an exception that nobody foresaw, no memory, a file that ends too early,
a number that is NaN. All ranks end at once with the documented code, one message names the rank, and no x is written.

Faults are those of src/fault.h. Run by CTest as fault.failing_work.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fault_runs import FaultRun, check_end  # noqa: E402  pylint: disable=C0413
from script_runs import Checks, Folder, in_parallel, run, strict_json  # noqa: E402  pylint: disable=C0413

DEADLINE = 30  # seconds; --timeout stays at 600: nobody may wait for a rank that failed
STAGES = ("open", "devices", "sketch", "reduce", "factor", "refine", "refine#2", "write")
CODES = {"throw": 1, "oom": 7, "short-read": 3, "nan": 4}
WORDS = {"throw": "a fault on purpose", "oom": "out of host memory", "short-read": "p.h5", "nan": "non-finite"}
STATUS = {7: "out_of_memory", 3: "input_error", 4: "non_finite"}


def check_fault(checks, folder, case):
    """One fault, in a run of its own."""
    rank, stage, action, ranks, extra = case
    name = f"{action} on rank {rank} of {ranks} in {stage}" + (f", {' '.join(map(str, extra))}" if extra else "")
    arguments = ["solve", os.path.join(folder, "p.h5"), "-o", "x.h5", "--chunk-rows", 500, "--report", "r.json", *extra]
    fault_run = FaultRun(folder, name, f"{rank}:{stage}:{action}", arguments, ranks)
    code = CODES[action]
    in_refine = action == "nan" and stage.startswith("refine")
    check_end(checks, name, fault_run, DEADLINE, kept=["r.json", "x.h5"] if in_refine else ["r.json"] if code > 2 else [])
    if in_refine:
        # A was finite when it was sketched: the pass that no longer is counts for nothing, and x is what the passes before made.
        checks.check(f"{name}: not converged", fault_run.done.code == 6 and len(fault_run.errors) == 1, fault_run)
        return
    checks.check(f"{name}: code {code}", fault_run.done.code == code, fault_run)
    teller = 0 if action == "nan" else rank  # what is not finite is counted over all ranks
    checks.check(f"{name}: one message, with the reason and the rank", len(fault_run.errors) == 1 and
                 WORDS[action] in fault_run.errors[0] and f"[rank {teller} on " in fault_run.errors[0], fault_run)
    if code > 2:
        place = os.path.join(folder, "".join(letter if letter.isalnum() else "_" for letter in name))
        with open(os.path.join(place, "r.json"), encoding="utf-8") as file:
            report = strict_json(file.read())
        checks.check(f"{name}: the report says so", report["exit_code"] == code and report["status"] == STATUS[code], report)


def main():
    """All cases."""
    checks = Checks()
    cases = [(rank, stage, action, ranks, ()) for action in ("throw", "oom") for stage in STAGES
             for rank, ranks in ((1, 2), (0, 3), (3, 4))]
    of_file = ("--residency", "file")
    cases += [(rank, stage, action, ranks, of_file) for action in ("short-read", "nan") for stage in ("sketch", "refine", "refine#3")
              for rank, ranks in ((1, 2), (0, 3), (3, 4))]
    cases += [(1, "sketch", action, 3, ("--checkpoint", "c.h5")) for action in CODES]
    with Folder() as folder:
        made = run(["generate", "p.h5", "--kind", "uniform", "--rows", 9000, "--cols", 6, "--seed", 3], cwd=folder)
        checks.check("a problem", made.code == 0, made)
        in_parallel(lambda case: check_fault(checks, folder, case), cases, workers=3)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
