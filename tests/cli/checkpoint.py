#!/usr/bin/python3
"""Checkpoints: a run that is killed again and again ends, resumed, at the x of one that nobody killed; at any stage, by any of
the signals a scheduler sends, on several ranks; and nothing but the checkpoint is left meanwhile.

Run by CTest as cli.checkpoint.
"""
import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import MPIEXEC, PROGRAM, Checks, Folder, read_x, run, strict_json  # noqa: E402  pylint: disable=C0413

M, N, SEED = 6001, 8, 3
CHUNK = 100
LIMIT = 60
SOON = 20  # seconds from a signal to the end, on a machine that others use, too
DICE = random.Random(SEED)
F_SETPIPE_SZ = 1031  # fcntl has it from Python 3.10 on


def program_ranks(process, ranks):
    """Process ids of the ranks of an mpirun, or of the program itself, in rank order."""
    if ranks == 1:
        return [process.pid]
    pids = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{entry}/environ", "rb") as file:
                rank = [int(v.split(b"=")[1]) for v in file.read().split(b"\0") if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        except OSError:
            continue
        if parent == process.pid and rank:
            pids.append((rank[0], int(entry)))
    return [pid for _, pid in sorted(pids)]


class Killed:
    """A run that gets a signal at the line after[1] of those that begin with after[0], unless it ends before.

    One rank writes into a pipe that holds one line: it waits until that is read, so that it is never more than a line ahead of
    the signal, however busy the machine is. mpirun reads ahead of us: there a run may end first (see stopped).
    """

    def __init__(self, arguments, folder, ranks=1, after=("checkpoint: ", 1), number=signal.SIGTERM, target="rank 0"):
        command = [PROGRAM, *map(str, arguments), "--verbose"]
        if ranks > 1:
            command = [MPIEXEC, "-n", str(ranks), *command]
        lines, theirs = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)  # packets: a write is not joined to the one before
        fcntl.fcntl(theirs, F_SETPIPE_SZ, 4096)  # a page, so one packet
        # pylint: disable=consider-using-with
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
                                   start_new_session=True, text=True)
        os.close(theirs)
        self.signalled, self.out, errors = None, "", []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        guard = threading.Timer(LIMIT, lambda: os.killpg(process.pid, signal.SIGKILL))
        guard.start()
        while packet := os.read(lines, 4096):
            self.out += packet.decode()
            if self.signalled is None and ("\n" + self.out).count("\n" + after[0]) >= after[1]:
                self.signalled = time.monotonic()
                pids = [process.pid] if target == "mpirun" else program_ranks(process, ranks)[-1:] \
                    if target == "last rank" else program_ranks(process, ranks)[:1]
                for pid in pids:
                    os.kill(pid, number)
        os.close(lines)
        self.code = process.wait()
        self.seconds = time.monotonic() - self.signalled if self.signalled else 0
        guard.cancel()
        reader.join()
        self.err = errors[0]

    def __str__(self):
        return f"exit {self.code}, {self.seconds:.1f} s after the signal\n{self.out[-1500:]}\n{self.err[-1500:]}"


def stopped(output, arguments, folder, *how):
    """Killed, of which output is the file; again where the run ended before the signal, as one on several ranks may."""
    for _ in range(5):
        stop = Killed(arguments, folder, *how)
        if stop.code != 0:
            break
        os.remove(os.path.join(folder, output))
    return stop


def others(folder):
    """Files that no run should leave."""
    return [name for name in os.listdir(folder) if ".tmp." in name]


def make_data(folder):
    """Integers, so that sketches and Gram matrices are exact in any order."""
    generator = np.random.default_rng(SEED)
    for name in ("a.h5", "other.h5"):
        with h5py.File(os.path.join(folder, name), "w") as file:
            file["A"] = generator.integers(-8, 9, (M, N)).astype("f8")
            file["b"] = generator.integers(-8, 9, M).astype("f8")


def check_many_kills(checks, folder):
    """TERM again and again, each time resumed, through sketch and refinement; then x bit for bit. The first job takes it twenty
    times in a row; at a line of refinement where there is one, so that no run is done before its signal.
    """
    sketching = [("checkpoint: ", DICE.randint(1, 2)) for _ in range(13)]  # of 61 chunks; a run makes two more at most
    refining = [("refine: pass ", 1)] * 7  # of 10 passes, of which a run makes one at most
    few = [("checkpoint: ", DICE.randint(1, 10)) for _ in range(4)]
    kinds = [(["--preconditioner", "sketch", "--residency", "file"], 1, CHUNK, [*sketching, *refining]),
             (["--preconditioner", "gram"], 1, CHUNK, few), (["--method", "sketch-solve"], 1, CHUNK, few),
             (["--preconditioner", "sketch", "--residency", "file"], 3, 10, [*few[:2], *refining[:2]])]
    for number, (options, ranks, rows, kills) in enumerate(kinds):
        base = ["solve", "a.h5", "--chunk-rows", rows, *options]
        output = f"x{number}.h5"
        done = run([*base, "-o", f"whole{number}.h5"], ranks=ranks, cwd=folder)
        name = f"{' '.join(options)} on {ranks} ranks"
        if not checks.check(f"{name}: not stopped", done.code == 0, done):
            continue
        wanted = read_x(os.path.join(folder, f"whole{number}.h5")).tobytes()
        stages = set()
        saving = [*base, "-o", output, "--checkpoint", "c.h5", "--checkpoint-every", 0, "--resume"]
        for kill, after in enumerate(kills, 1):
            how = (folder, ranks, after, signal.SIGTERM, DICE.choice(["rank 0", "last rank"]))
            stop = Killed(saving, *how) if ranks == 1 else stopped(output, saving, *how)
            stages.add("refine" if "refine: pass" in stop.out else "sketch")
            # Between the passes (the sketch is complete, and being factored) nobody agrees on a stop: what is saved is enough.
            said = sum(map(stop.err.count, ("stopped by SIGTERM: checkpoint written to 'c.h5', go on with --resume",
                                            "error: stopped by signal TERM in stage")))
            checks.check(f"{name}, kill {kill}: code 75, one message, at once", stop.code == 75 and stop.seconds < SOON and
                         said == 1, stop)
            checks.check(f"{name}, kill {kill}: goes on from the kill before", ranks > 1 or kill == 1 or
                         "going on from 'c.h5'" in stop.out, stop)
            checks.check(f"{name}, kill {kill}: leaves the checkpoint, and no more", os.path.exists(os.path.join(folder, "c.h5")) and
                         not others(folder) and not os.path.exists(os.path.join(folder, output)), os.listdir(folder))
        last = run(saving, ranks=ranks, cwd=folder)
        checks.check(f"{name}: resumed to the end, x bit for bit", last.code == 0 and "going on from 'c.h5'" in last.out and
                     read_x(os.path.join(folder, output)).tobytes() == wanted, last)
        checks.check(f"{name}: the checkpoint is gone", not os.path.exists(os.path.join(folder, "c.h5")) and not others(folder),
                     os.listdir(folder))
        if "file" in options:
            checks.check(f"{name}: killed in both stages", stages == {"sketch", "refine"}, stages)


def check_launcher_signals(checks, folder):
    """USR1 and TERM to mpirun, HUP to one rank (C-39); then on with another number of ranks."""
    base = ["solve", "a.h5", "--preconditioner", "sketch", "--residency", "file", "--checkpoint", "m.h5", "-o", "m.x.h5"]
    wanted = read_x(os.path.join(folder, "whole0.h5"))
    # Chunks of one row where nobody may be done early: mpirun kills 2 s after its TERM.
    for name, number, target, after, rows, every in (
            ("USR1 to mpirun", signal.SIGUSR1, "mpirun", ("checkpoint: ", 3), CHUNK, 0),
            ("USR1 to mpirun, refining", signal.SIGUSR1, "mpirun", ("refine: pass ", 1), 1, 1e6),
            ("HUP to the last rank", signal.SIGHUP, "last rank", ("checkpoint: ", 5), CHUNK, 0),
            ("TERM to mpirun", signal.SIGTERM, "mpirun", ("checkpoint: ", 6), 1, 0)):
        stop = stopped("m.x.h5", [*base, "--chunk-rows", rows, "--checkpoint-every", every], folder, 2, after, number, target)
        checks.check(f"{name}: all end, soon, with a checkpoint and no x", stop.seconds < SOON and
                     os.path.exists(os.path.join(folder, "m.h5")) and not os.path.exists(os.path.join(folder, "m.x.h5")), stop)
        if target == "mpirun" and number == signal.SIGTERM:
            # Open MPI answers that itself, and kills: some of them, whose temporary file the next run removes.
            checks.check(f"{name}: code 1", stop.code == 1, stop)
        else:
            checks.check(f"{name}: code 75 and one message", stop.code == 75 and stop.err.count("tallsketch: error:") == 1 and
                         "checkpoint written to 'm.h5'" in stop.err, stop)
        done = run([*base, "--chunk-rows", CHUNK, "--resume"], ranks=3, cwd=folder)
        checks.check(f"{name}: resumed on 3 ranks", done.code == 0 and "going on from 'm.h5'" in done.out and
                     np.allclose(read_x(os.path.join(folder, "m.x.h5")), wanted, rtol=1e-12, atol=0), done)
        checks.check(f"{name}: nothing left", not os.path.exists(os.path.join(folder, "m.h5")) and not others(folder),
                     os.listdir(folder))
        os.remove(os.path.join(folder, "m.x.h5"))


def check_sketch(checks, folder):
    """tallsketch sketch is resumed, too: /SA bit for bit."""
    def read_sa(name):
        with h5py.File(os.path.join(folder, name), "r") as file:
            return file["SA"][()].tobytes()

    base = ["sketch", "a.h5", "--chunk-rows", CHUNK, "--first-row", 77]
    run([*base, "-o", "whole.s.h5"], cwd=folder)
    saving = [*base, "-o", "s.h5", "--checkpoint", "sc.h5", "--checkpoint-every", 0]
    stop = stopped("s.h5", saving, folder, 2, ("checkpoint: ", 4), signal.SIGUSR1, "mpirun")
    checks.check("sketch: stopped", stop.code == 75, stop)
    done = run([*saving, "--resume", "--report", "-"], cwd=folder)
    checks.check("sketch: resumed", done.code == 0 and strict_json(done.out)["status"] == "sketched" and
                 read_sa("s.h5") == read_sa("whole.s.h5") and
                 not os.path.exists(os.path.join(folder, "sc.h5")), done)


def check_from_sketch(checks, folder):
    """solve FILE --from-sketch is resumed with the S of the sketch file, which must be the same file; not of 16 bits."""
    make = ["sketch", "a.h5", "-o", "f.s.h5", "--sketch-rows", 1023, "--zeta", 3]
    base = ["solve", "a.h5", "--from-sketch", "f.s.h5", "--chunk-rows", CHUNK, "--residency", "file"]
    saving = [*base, "-o", "f.x.h5", "--checkpoint", "f.h5", "--checkpoint-every", 0]
    run([*make, "--seed", 7], cwd=folder)
    run([*base, "-o", "whole.f.x.h5"], cwd=folder)
    stop = stopped("f.x.h5", saving, folder, 2, ("checkpoint: ", 2))
    checks.check("from a sketch: stopped", stop.code == 75, stop)
    run([*make, "--seed", 8], cwd=folder)
    other = run([*saving, "--resume"], cwd=folder)
    checks.check("from another sketch of that name: refused", other.code == 3 and "input sketch was" in other.err, other)
    run([*make, "--seed", 7], cwd=folder)
    done = run([*saving, "--resume", "--report", "-"], cwd=folder)
    sketch = strict_json(done.out)["sketch"] if done.code == 0 else {}
    checks.check("from a sketch: resumed with its S", (sketch.get("zeta"), sketch.get("seed")) == (3, 7) and
                 np.allclose(read_x(os.path.join(folder, "f.x.h5")), read_x(os.path.join(folder, "whole.f.x.h5")), rtol=1e-12,
                             atol=0), done)


def check_refusals(checks, folder):
    """What does not fit, is damaged, or cannot be written."""
    base = ["solve", "a.h5", "--chunk-rows", CHUNK, "--preconditioner", "sketch", "-o", "r.x.h5"]
    saving = [*base, "--checkpoint", "r.h5", "--checkpoint-every", 0]
    stop = Killed(saving, folder, 1, ("checkpoint: ", 5))
    checks.check("stopped, for what follows", stop.code == 75, stop)

    def refused(name, code, words, arguments, ranks=1):
        done = run(arguments, ranks=ranks, cwd=folder)
        checks.check(f"{name}: exit {code}, one message with {words}", done.code == code and
                     done.err.count("tallsketch: error:") == 1 and all(word in done.err for word in words), done)
        checks.check(f"{name}: no x, nothing temporary", not os.path.exists(os.path.join(folder, "r.x.h5")) and
                     not others(folder), os.listdir(folder))

    refused("a checkpoint is there", 2, ["--resume", "r.h5"], saving)
    refused("another seed", 2, ["--seed was '0'", "'4' now"], [*saving, "--resume", "--seed", 4], 2)
    refused("another input", 3, ["input was"],
            ["solve", "other.h5", *saving[2:], "--resume"])
    refused("16 bits", 2, ["--checkpoint", "fp16"], [*base, "--checkpoint", "h.h5", "--precision", "fp16"])
    refused("no folder", 9, ["no/such/c.h5"], [*base, "--checkpoint", "no/such/c.h5"], 2)
    refused("checkpoint is an input", 2, ["--checkpoint 'a.h5' is an input"], [*base, "--checkpoint", "a.h5"])
    refused("checkpoint is the output", 2, ["r.x.h5"], [*base, "--checkpoint", "r.x.h5"])
    refused("resume what", 2, ["--checkpoint"], [*base, "--resume"])
    os.truncate(os.path.join(folder, "r.h5"), 0)  # other damage: mpi.checkpoint
    refused("empty", 3, ["r.h5"], [*saving, "--resume"], 2)
    os.remove(os.path.join(folder, "r.h5"))
    # A disk that is full at each checkpoint (C-10): a file may have 64 KiB, which x needs less of; mpirun's own none of that.
    limit = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash"]
    limited = run([*saving, "--oversample", 200, "--report", "-"], ranks=2, cwd=folder, prefix=limit)
    told = "a checkpoint could not be written"
    checks.check("full disk: goes on, says so once in log and report, leaves nothing", limited.code == 0 and
                 limited.err.count(f"warning: {told}") == 1 and
                 sum(told in warning and "r.h5" in warning for warning in strict_json(limited.out)["warnings"]) == 1 and
                 not os.path.exists(os.path.join(folder, "r.h5")) and not others(folder), limited)
    os.remove(os.path.join(folder, "r.x.h5"))
    done = run([*saving, "--resume"], cwd=folder)
    checks.check("nothing to resume: from the beginning", done.code == 0 and "no checkpoint 'r.h5'" in done.out, done)


def main():
    checks = Checks()
    print(f"seed {SEED}")
    with Folder() as folder:
        make_data(folder)
        for part in (check_many_kills, check_launcher_signals, check_sketch, check_from_sketch, check_refusals):
            part(checks, folder)
            print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
