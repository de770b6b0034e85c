"""What the script tests share: runs of tallsketch with a time limit, checks that are counted, h5py files.

Used by tests/io/*.py and tests/cli/*.py. Environment: cmake/testing.cmake; by hand, TALLSKETCH=build/host/tallsketch
and the rest has defaults.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import h5py

SOURCE = os.environ.get("TALLSKETCH_SOURCE_DIR", os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
PROGRAM = os.environ.get("TALLSKETCH", os.path.join(SOURCE, "build", "host", "tallsketch"))
MPIEXEC = os.environ.get("MPIEXEC", "mpirun")
CUDA = os.environ.get("TALLSKETCH_CUDA", "OFF") == "ON"
# The limit of an end: no run may hang. Sanitizers and loaded machines slow down, so a run that ends is not timed.
LIMIT_SECONDS = 60
WORKERS = 2  # runs at a time; CTest is told so by PROCESSORS


class Run:
    """A finished run: code (None after the limit), stdout, stderr, seconds, and the command for messages."""

    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds

    def own_lines(self):
        """Lines of stdout and stderr that are not mpirun's: what tallsketch itself said."""
        lines = [line for line in self.out.splitlines() if line.strip()]
        of_mpirun = False
        for line in self.err.splitlines():
            if set(line) == {"-"} and len(line) > 20:  # mpirun frames what it says
                of_mpirun = not of_mpirun
            elif not of_mpirun and line.strip():
                lines.append(line)
        # Open MPI 5 and MPICH have their own closing remarks, without a frame.
        noise = ("mpirun", "mpiexec", "prterun", "Primary job", "=   BAD TERMINATION", "=   ", "====")
        return [line for line in lines if not line.startswith(noise)]

    def __str__(self):
        return (f"$ {' '.join(self.command)}\nexit {self.code} after {self.seconds:.1f} s\n"
                f"stdout: {self.out[-1500:]}\nstderr: {self.err[-2500:]}")


def run(arguments, ranks=1, cwd=None, environment=None, stdout=None, prefix=()):
    """Runs tallsketch on 1 rank without mpirun, on more with it; prefix goes between mpirun and the program."""
    command = [*prefix, PROGRAM, *map(str, arguments)]
    if ranks > 1:
        command = [MPIEXEC, "-n", str(ranks), *command]
    return run_command(command, cwd, environment, stdout)


def run_command(command, cwd=None, environment=None, stdout=None):
    """Runs any command within the limit; on overrun the whole process group is ended."""
    variables = {**os.environ, **(environment or {})}
    start = time.monotonic()
    # pylint: disable=consider-using-with
    process = subprocess.Popen(command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL,
                               stdout=stdout or subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=LIMIT_SECONDS)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        code = None
    text = [(stream or b"").decode("utf-8", "replace") for stream in (out, err)]
    return Run(command, code, text[0], text[1], time.monotonic() - start)


class Checks:
    """Counts checks; a failed one prints its name and why."""

    def __init__(self):
        self.passed, self.failed, self.lock, self.start = 0, [], threading.Lock(), time.monotonic()

    def check(self, name, condition, why=""):
        with self.lock:
            if condition:
                self.passed += 1
            else:
                self.failed.append(name)
                print(f"FAILED: {name}\n    " + str(why).replace("\n", "\n    "), flush=True)
        return bool(condition)

    def finish(self):
        """Prints the sum and gives the exit code of the script."""
        print(f"{self.passed} checks passed, {len(self.failed)} failed, {time.monotonic() - self.start:.0f} s")
        return 1 if self.failed or not self.passed else 0


def read_x(path):
    """/x of a result file."""
    with h5py.File(path, "r") as file:
        return file["x"][()]


def in_parallel(work, items, workers=WORKERS):
    """Calls work(item) for all items, so many at a time; exceptions come out."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def strict_json(text):
    """The value of a JSON text; ValueError for NaN, Infinity, repeated keys or anything after it."""
    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    def unique(pairs):
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"repeated keys in {keys}")
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


class Folder:
    """A fresh folder, removed when the script ends well, kept and named otherwise."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="tallsketch-test-")
        return self.path

    def __exit__(self, kind, *_):
        if kind is None:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print(f"kept: {self.path}", file=sys.stderr)
