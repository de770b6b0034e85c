#!/usr/bin/python3
"""Everything that tallsketch writes, with nowhere to write it: x, the report, sketch files, their sum, checkpoints, generated
problems, the table of a study. Each is there whole or not at all; code 9 and one message with the system's reason; an input is
never replaced (code 2); a signal leaves nothing (code 75). Run by CTest as cli.outputs. More: cli.exit_codes, unit.atomic_file.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import PROGRAM, Checks, Folder, in_parallel, run  # noqa: E402  pylint: disable=C0413

FEW = ["--sketch-rows", "64", "--quiet"]


def commands(out, inputs):
    """{what: arguments that write it to `out`}; x.h5 beside it where the run writes that, too."""
    good = os.path.join(inputs, "good.h5")
    return {
        "x": ["solve", good, "-o", out, "--quiet"],
        "report": ["solve", good, "-o", "x.h5", "--report", out, "--quiet"],
        "sketch": ["sketch", good, "-o", out, *FEW],
        "merge": ["sketch", "--merge", out, os.path.join(inputs, "one.h5"), os.path.join(inputs, "two.h5"), "--quiet"],
        "checkpoint": ["solve", good, "-o", "x.h5", "--checkpoint", out, "--checkpoint-every", "0", "--chunk-rows", "64", "--preconditioner", "sketch", *FEW],
        "generate": ["generate", out, "--rows", "2000", "--cols", "8", "--quiet"],
        "generate in shards": ["generate", out, "--rows", "2000", "--cols", "8", "--shards", "3", "--quiet"],
        "study": ["study", "geometry", "--rows", "100", "--cols", "8", "--seeds", "1", "-o", out, "--quiet"],
    }


def make_inputs(folder):
    generator = np.random.default_rng(3)
    with h5py.File(os.path.join(folder, "good.h5"), "w") as file:
        file["A"], file["b"] = generator.standard_normal((500, 7)), generator.standard_normal(500)
    for name, first in (("one.h5", "0"), ("two.h5", "500")):
        done = run(["sketch", "good.h5", "-o", name, "--first-row", first, *FEW], cwd=folder)
        if done.code != 0:
            raise RuntimeError(done)


def mounted(folder, name, *options):
    """A small file system of its own, or None where that is not allowed."""
    place = os.path.join(folder, name)
    os.mkdir(place)
    made = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", place], check=False, stderr=subprocess.DEVNULL)
    return place if made.returncode == 0 else None


def check_nowhere(checks, folder, inputs, places):
    """places  [(words of the reason, path to write to, folder that may not change)]"""
    before = {watched: sorted(os.listdir(watched)) for _, _, watched in places if watched}
    jobs = [(what, arguments, word, os.path.join(folder, f"run.{k}.{i}")) for k, (word, path, watched) in enumerate(places)
            for i, (what, arguments) in enumerate(commands(path, inputs).items())
            if what != "generate in shards" or word != "not a regular file"]  # whose names are others

    def one(job):
        what, arguments, word, place = job
        os.mkdir(place)
        done = run(arguments, cwd=place)
        lines = [line for line in done.own_lines() if line.startswith("tallsketch: error:")]
        name = f"{what}: {word}"
        if what == "checkpoint" and word == "No space left":  # hours of work are worth more than one checkpoint: it is told, and goes on
            checks.check(f"{name}: goes on without", done.code == 0 and os.listdir(place) == ["x.h5"], done)
            return
        checks.check(f"{name}: code 9, one message with the reason", done.code == 9 and len(lines) == 1 and word in lines[0], done)
        # The report comes last: x is complete by then, and the message says so.
        left = set(os.listdir(place))
        allowed = {"x.h5"} if what == "report" and "x is complete" in "".join(lines) else set()
        checks.check(f"{name}: nothing is left", left == allowed, (left, done))
    in_parallel(one, jobs)
    for watched, names in before.items():
        checks.check(f"{watched} is as it was", sorted(os.listdir(watched)) == names, os.listdir(watched))


def check_shared_memory(checks, folder):
    """The structure of a problem file is made in memory: neither a full /dev/shm nor what others left there concerns it."""
    alone = ["unshare", "--mount", "sh", "-c"]
    with_shm = [*alone, 'mount -t tmpfs -o size=8k tmpfs /dev/shm && mkdir /dev/shm/tallsketch-structure && "$@" && ls /dev/shm >&2', "sh"]
    if not shutil.which("unshare") or subprocess.run([*with_shm, "true"], check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode:
        print("left out: a full /dev/shm (no mount namespaces here)")
        return
    place = os.path.join(folder, "shared_memory")
    os.mkdir(place)
    done = run(["generate", "g.h5", "--rows", "2000", "--cols", "8", "--quiet"], cwd=place, prefix=with_shm)
    checks.check("generate with 8 KiB of /dev/shm: code 0, nothing left there", done.code == 0 and done.own_lines() == ["tallsketch-structure"], done)
    if done.code == 0:
        with h5py.File(os.path.join(place, "g.h5"), "r") as file:
            a, x, b = file["A"][...], file["x_true"][...], file["b"][...]
        checks.check("generate with 8 KiB of /dev/shm: a problem", a.shape == (2000, 8) and b.shape == (2000,) and x.shape == (8,) and
                     all(np.isfinite(part).all() and part.any() for part in (a, x, b)), (a, x, b))


def check_inputs_stay(checks, folder, inputs):
    """An output under the name of an input is refused before anything is read."""
    for target, kinds in (("good.h5", ("x", "report", "sketch", "checkpoint")), ("two.h5", ("merge",))):
        path = os.path.join(inputs, target)
        with open(path, "rb") as file:
            before = file.read()
        for what in kinds:
            done = run(commands(path, inputs)[what], cwd=folder)
            with open(path, "rb") as file:
                checks.check(f"{what} onto an input: code 2, untouched", done.code == 2 and file.read() == before, done)


def ended_by_term(arguments, cwd, ready, environment=None):
    """Code and what a run said that gets TERM once ready(its lines on stderr so far) holds."""
    # pylint: disable=consider-using-with
    process = subprocess.Popen([PROGRAM, *arguments], cwd=cwd, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.set_blocking(process.stderr.fileno(), False)
    said, limit = b"", time.monotonic() + 60
    while not ready(said.decode()) and process.poll() is None and time.monotonic() < limit:
        said += process.stderr.read() or b""
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = None
    os.set_blocking(process.stderr.fileno(), True)
    return code, (said + process.stderr.read()).decode()


def check_signals(checks, folder, inputs):
    """TERM while a result is being written."""
    place = os.path.join(folder, "signals")
    os.mkdir(place)
    for what in ("x", "sketch"):
        code, said = ended_by_term(commands("out.h5", inputs)[what], place, lambda text: "fault injected" in text,
                                   {"TALLSKETCH_FAULT": "0:write:hang"})
        if "fault injected" not in said:
            print(f"left out: a signal while {what} is written (a build without faults)")
            continue
        checks.check(f"{what}: TERM while it is written: 75, nothing left", code == 75 and not os.listdir(place), (code, said, os.listdir(place)))
    for shards in ("1", "3"):
        code, said = ended_by_term(["generate", "g.h5", "--rows", "4M", "--cols", "16", "--shards", shards, "--quiet"], place,
                                   lambda _: any(os.path.getsize(os.path.join(place, name)) > 0 for name in os.listdir(place)))
        checks.check(f"generate, {shards} shards: TERM while it is written: 75, nothing left", code == 75 and not os.listdir(place),
                     (code, said, os.listdir(place)))


def main():
    checks = Checks()
    with Folder() as folder:
        inputs = os.path.join(folder, "inputs")
        os.mkdir(inputs)
        make_inputs(inputs)
        os.mkdir(os.path.join(folder, "folder"))
        places = [("No such file", os.path.join(folder, "none", "out.h5"), None),
                  ("not a regular file", os.path.join(folder, "folder"), os.path.join(folder, "folder")),
                  ("not a regular file", "/dev/full", None)]
        full, read_only = mounted(folder, "full", "-o", "size=4k"), mounted(folder, "read_only", "-o", "ro")
        try:
            if full:
                with open(os.path.join(full, "fills"), "wb") as file:
                    file.write(bytes(4096))
                places.append(("No space left", os.path.join(full, "out.h5"), full))
            if read_only:
                places.append(("Read-only file system", os.path.join(read_only, "out.h5"), read_only))
            if not full or not read_only:
                print("left out: a full disk, a read-only one (no mount of a tmpfs here)")
            check_nowhere(checks, folder, inputs, places)
        finally:
            for place in (full, read_only):
                if place:
                    subprocess.run(["umount", place], check=False)
        check_shared_memory(checks, folder)
        check_inputs_stay(checks, folder, inputs)
        check_signals(checks, folder, inputs)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
