"""Runs of tallsketch with a fault on purpose (src/fault.h), and whether anything outlives them. Used by tests/fault/*.py."""
import os
import time

from script_runs import run


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


class FaultRun:
    """A run with the fault RANK:STAGE:ACTION on so many ranks, in a folder of its own: .done, .files, .gone."""

    def __init__(self, folder, name, fault, arguments, ranks):
        place = os.path.join(folder, "".join(letter if letter.isalnum() else "_" for letter in name))
        os.mkdir(place)
        mark = f"{os.getpid()}:{name}"
        self.done = run(arguments, ranks=ranks, cwd=place, environment={"TALLSKETCH_FAULT": fault, "TALLSKETCH_TEST_MARK": mark})
        self.gone = all_gone(f"TALLSKETCH_TEST_MARK={mark}")
        self.files = sorted(os.listdir(place))
        self.errors = [line for line in self.done.err.splitlines() if line.startswith("tallsketch: error:")]

    def __str__(self):
        return f"files {self.files}\n{self.done}"


def check_end(checks, name, fault_run, seconds, kept=()):
    """What holds after every fault: it happened, the run ended in time, no process and no other file is left."""
    checks.check(f"{name}: the fault happened", "fault injected" in fault_run.done.err, fault_run)
    checks.check(f"{name}: ends in time", fault_run.done.code is not None and fault_run.done.seconds < seconds, fault_run)
    checks.check(f"{name}: no process is left", fault_run.gone, fault_run)
    checks.check(f"{name}: no file but {list(kept)}", set(fault_run.files) <= set(kept), fault_run)
