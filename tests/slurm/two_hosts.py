#!/usr/bin/python3
"""tallsketch by mpirun on two hosts that are joined by a cable only: answers, a rank killed on the other host, the cable cut.

Run by CTest as slurm.two_hosts; skipped without root or the rights to make namespaces.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from isolation import isolate, living, wait_until_gone  # noqa: E402  pylint: disable=C0413

# pylint: disable=wrong-import-position
isolate()
from integer_problem import SEED, read_x, same_bits, same_to_rounding, write_integer_problem  # noqa: E402
from script_runs import PROGRAM, SOURCE, Checks, Folder, run, run_command, strict_json  # noqa: E402
from two_hosts import TwoHosts  # noqa: E402

ROWS, COLS = 16000, 8
GONE = 30  # seconds within which an end must reach all ranks, on a loaded machine
CUT = 60   # the same where the cable is cut: 5 + 3 x 2 s by the settings of site.env, if nothing else is slow


NESTED = "import os, isolation\nisolation.isolate()\nprint(os.readlink('/proc/self/ns/pid'))\n"


def check_isolation(checks, _, folder):
    """Marks of isolate() that were left in an environment are not believed: the script goes into namespaces of its own."""
    here = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt")]
    with open(f"{folder}/nested.py", "w", encoding="ascii") as file:
        file.write(NESTED)
    for mark in ("inside", "", " ".join(here), "pid:[1]", f"pid:[1] {here[1]}", f"{here[0]} mnt:[1]"):
        done = run_command([sys.executable, "nested.py"], cwd=folder, environment={
            "TALLSKETCH_ISOLATED": mark, "PYTHONPATH": os.path.join(SOURCE, "tests", "support")})
        checks.check(f"isolated, although the environment says '{mark}'", done.code == 0 and done.out.startswith("pid:[") and
                     done.out.strip() != here[0], done)


def check_answers(checks, hosts, folder):
    """2 + 2 ranks: the x of one host, bit for bit after one pass over integers, to rounding after refinement."""
    for method, same in (("sketch-solve", same_bits), ("refine", same_to_rounding)):
        arguments = ["solve", "p.h5", "--method", method, "--report"]
        alone = run([*arguments, "1.json", "-o", "1.x.h5"], ranks=4, cwd=folder)
        before = hosts.crossed_bytes()
        done = run_command(hosts.mpirun(4, [PROGRAM, *arguments, "2.json", "-o", "2.x.h5"]), cwd=folder)
        crossed = hosts.crossed_bytes() - before
        checks.check(f"{method}, 2 + 2 ranks: solved", alone.code == 0 and done.code == 0, f"{alone}\n{done}")
        if alone.code or done.code:
            continue
        with open(f"{folder}/2.json", encoding="utf-8") as file:
            comm = strict_json(file.read())["comm"]
        checks.check(f"{method}: two hosts", (comm["size"], comm["nodes"]) == (4, 2) and
                     sorted(place["host"] for place in comm["ranks"]) == ["n1", "n1", "n2", "n2"], comm)
        # The sketch has at least d x (n + 1) floats; whoever sums up here, one host's share comes through the cable.
        checks.check(f"{method}: the sum came through the cable", crossed > 4 * 8 * COLS, crossed)
        checks.check(f"{method}: x of one host", same(read_x(f"{folder}/1.x.h5"), read_x(f"{folder}/2.x.h5")), done)


def check_errors(checks, hosts, folder):
    """One message and the program's code, wherever the failing rank is."""
    done = run_command(hosts.mpirun(4, [PROGRAM, "solve", "none.h5"]), cwd=folder)
    checks.check("missing file: exit 3, one message", done.code == 3 and done.err.count("tallsketch: error:") == 1, done)


class LongRun:
    """4 ranks on both hosts that save themselves again and again for minutes; there once the first checkpoint is."""

    def __init__(self, hosts, folder, name, options=()):
        self.checkpoint, self.x = f"{folder}/{name}.c.h5", f"{folder}/{name}.x.h5"
        command = hosts.mpirun(4, [PROGRAM, "solve", "p.h5", "--chunk-rows", "1", "--preconditioner", "sketch", "--checkpoint",
                                   self.checkpoint, "--checkpoint-every", "0", "-o", self.x, "--quiet"], options)
        self.log = f"{folder}/{name}.log"  # no pipe: whoever is left after a failure would keep it open
        with open(self.log, "wb") as output:
            # pylint: disable=consider-using-with
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True, env={**os.environ, **site_settings()})
        deadline = time.monotonic() + 60
        while not os.path.exists(self.checkpoint) and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def end(self, seconds):
        """(code, output, seconds until every process has gone); None for what did not happen in time."""
        start = time.monotonic()
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        gone = wait_until_gone(PROGRAM, max(1.0, seconds - (time.monotonic() - start)))
        code, left, ended = self.process.poll(), living(PROGRAM), time.monotonic()
        for pid in left + (living(shutil.which("orted")) if left or code is None else []):
            os.kill(pid, signal.SIGKILL)
        if code is None:
            self.process.kill()
            self.process.wait()
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return code, f"{file.read()[-2000:]}\nleft: {left}", None if gone is None else ended - start


def site_settings():
    """What slurm/site.env exports for Open MPI: these settings are the documented ones."""
    script = f". {SOURCE}/slurm/site.env && env"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("OMPI_MCA_oob_tcp_keepalive"))


def check_killed_rank(checks, hosts, folder):
    """kill -9 of a rank, on either host: all end, non-zero (C-15)."""
    for name, host in (("near", "n1"), ("far", "n2")):
        job = LongRun(hosts, folder, name)
        ranks = {pid: host_of(pid) for pid in living(PROGRAM)}
        checks.check("2 ranks on each host are there to be killed", sorted(ranks.values()) == ["n1", "n1", "n2", "n2"], ranks)
        for pid in [pid for pid, place in ranks.items() if place == host][:1]:
            os.kill(pid, signal.SIGKILL)
        code, out, seconds = job.end(GONE)
        checks.check(f"killed rank on {host}: all gone, non-zero", code not in (0, None) and seconds is not None, (code, out))
        checks.check(f"killed rank on {host}: no x, and a checkpoint", not os.path.exists(job.x) and os.path.exists(job.checkpoint),
                     os.listdir(folder))


def host_of(pid):
    """The host that a rank runs on, by its own account."""
    command = ["nsenter", "--target", str(pid), "--uts", "hostname"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def check_cut(checks, hosts, folder):
    """The cable is cut, with the keep-alive settings of site.env: both halves end within the deadline, non-zero."""
    checks.check("site.env has keep-alive settings", len(site_settings()) == 3, site_settings())
    job = LongRun(hosts, folder, "cut")
    checks.check("4 ranks before the cut", len(living(PROGRAM)) == 4, living(PROGRAM))
    hosts.cut()
    code, out, seconds = job.end(CUT)
    hosts.join()
    checks.check("cut: all gone on both hosts, non-zero", code not in (0, None) and seconds is not None, (code, out))
    print(f"cut: code {code}, all gone after {seconds} s")
    done = run_command(hosts.mpirun(4, [PROGRAM, "solve", "p.h5", "--quiet", "-o", f"{folder}/after.x.h5"]), cwd=folder)
    checks.check("cut: the cable works again", done.code == 0, done)


def main():
    checks = Checks()
    print(f"data seed {SEED}")
    with Folder() as folder:
        hosts = TwoHosts(folder)
        write_integer_problem(f"{folder}/p.h5", ROWS, COLS)
        for part in (check_isolation, check_answers, check_errors, check_killed_rank, check_cut):
            part(checks, hosts, folder)
            print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
