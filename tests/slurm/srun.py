#!/usr/bin/python3
"""tallsketch under srun, on a real Slurm of two nodes: answers, exit codes, signals, the wrong PMI, killed ranks.

Run by CTest as slurm.srun; skipped without root, the rights to make namespaces, or Slurm.
"""
import glob
import os
import re
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from isolation import isolate, living, wait_until_gone  # noqa: E402  pylint: disable=C0413
from slurm_cluster import SlurmCluster, require_slurm, run_part  # noqa: E402  pylint: disable=C0413

# pylint: disable=wrong-import-position
require_slurm()
isolate()
from integer_problem import SEED, read_x, same_bits, same_to_rounding, write_integer_problem  # noqa: E402
from script_runs import PROGRAM, Checks, Folder, run, strict_json  # noqa: E402

ROWS, COLS = 16000, 8
SRUN = ["srun", "--mpi=pmix", "--kill-on-bad-exit=1", "--distribution=block:block"]
GONE = 30  # seconds within which an end must reach all ranks, on a loaded machine


def on_nodes(nodes, ranks, *options):
    """The srun command line of the templates."""
    return [*SRUN, *options, f"--nodes={nodes}", f"--ntasks={ranks}", PROGRAM]


def check_limit(checks, cluster, folder):
    """The limit of cluster.run() ends grandchildren as well, or it would wait for their end of the pipes."""
    start = time.monotonic()
    done = cluster.run(["bash", "-c", "sleep 90; exit 0"], seconds=1, cwd=folder)
    checks.check("a limit holds for what a command starts", done[0] is None and time.monotonic() - start < GONE and
                 not living(shutil.which("sleep")), (done, living(shutil.which("sleep"))))


def check_answers(checks, cluster, folder):
    """1 and 2 nodes: x of mpirun, bit for bit after one pass over integers, to rounding after refinement."""
    for method, same in (("sketch-solve", same_bits), ("refine", same_to_rounding)):
        for nodes, ranks in ((1, 2), (1, 4), (2, 2), (2, 4)):
            name = f"{method}, {ranks} ranks on {nodes} node{'s' * (nodes > 1)}"
            arguments = ["solve", "p.h5", "--method", method, "--report"]
            alone = run([*arguments, "m.json", "-o", "m.x.h5"], ranks=ranks, cwd=folder)
            done = cluster.run([*on_nodes(nodes, ranks), *arguments, "s.json", "-o", "s.x.h5"], cwd=folder)
            checks.check(f"{name}: solved", alone.code == 0 and done[0] == 0, (alone, done))
            checks.check(f"{name}: x of mpirun", same(read_x(f"{folder}/m.x.h5"), read_x(f"{folder}/s.x.h5")), done)
            with open(f"{folder}/s.json", encoding="utf-8") as file:
                comm = strict_json(file.read())["comm"]
            checks.check(f"{name}: the report knows the nodes", (comm["size"], comm["nodes"]) == (ranks, nodes) and
                         {place["host"] for place in comm["ranks"]} == {"n1", "n2"} - ({"n2"} if nodes == 1 else set()), comm)
            for path in ("m.x.h5", "s.x.h5", "s.json"):
                if os.path.exists(f"{folder}/{path}"):
                    os.remove(f"{folder}/{path}")


def check_errors(checks, cluster, folder):
    """Exit codes come out of srun as they are, with one message."""
    for name, code, arguments in (("missing file", 3, ["solve", "none.h5"]), ("unknown option", 2, ["solve", "p.h5", "--fast"]),
                                  ("not converged", 6, ["solve", "p.h5", "--max-iters", "1", "-o", "e.x.h5"]),
                                  ("no such folder", 9, ["solve", "p.h5", "-o", "no/such/x.h5"])):
        done = cluster.run([*on_nodes(2, 4), *arguments], cwd=folder)
        checks.check(f"{name}: exit {code}, one message", done[0] == code and done[2].count("tallsketch: error:") == 1, done)


def check_wrong_pmi(checks, cluster, folder):
    """Ranks that do not find each other must not all solve the problem alone (C-12)."""
    start = time.monotonic()
    done = cluster.run(["srun", "--mpi=none", "--ntasks=4", PROGRAM, "solve", "p.h5", "-o", "w.x.h5"], cwd=folder)
    checks.check("srun --mpi=none: an error, soon, and no x", done[0] not in (0, None) and time.monotonic() - start < GONE and
                 not os.path.exists(f"{folder}/w.x.h5"), done)
    # This Open MPI refuses by itself, as long as it sees Slurm. Others start P times "rank 0 of 1": so does this one, alone.
    alone = ["srun", "--mpi=none", "--ntasks=4", "env", "-u", "SLURM_NODELIST", "-u", "SLURM_JOBID", PROGRAM]
    done = cluster.run([*alone, "solve", "p.h5", "-o", "w.x.h5"], cwd=folder)
    checks.check("4 times rank 0 of 1: exit 8, the numbers and the remedy, no x", done[0] == 8 and
                 "Slurm started 4 tasks but MPI has 1 rank" in done[2] and "srun --mpi=pmix" in done[2] and
                 not os.path.exists(f"{folder}/w.x.h5"), done)
    done = cluster.run([*alone, "solve", "p.h5", "-o", "w.x.h5", "--ignore-launcher", "--quiet"], cwd=folder)
    checks.check("4 times rank 0 of 1, --ignore-launcher: runs", done[0] == 0 and os.path.exists(f"{folder}/w.x.h5"), done)


def start_slow(cluster, folder, name, nodes, ranks):
    """A run of many small checkpoints (seconds at least), once the first is there; its process."""
    path = f"{folder}/{name}.c.h5"
    for old in glob.glob(f"{folder}/{name}.*"):
        os.remove(old)
    process = cluster.start([*on_nodes(nodes, ranks, f"--job-name={name}"), "solve", "p.h5", "--method", "sketch-solve",
                             "--chunk-rows", "50", "--checkpoint", path, "--checkpoint-every", "0", "--resume", "-o",
                             f"{folder}/{name}.x.h5"], cwd=folder)
    deadline = time.monotonic() + 60
    while not os.path.exists(path) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


def check_signals(checks, cluster, folder):
    """TERM and USR1 through Slurm: 75, one message, a checkpoint, no rank left; resumed by other ranks, the same x (C-39)."""
    run(["solve", "p.h5", "--method", "sketch-solve", "-o", "whole.x.h5"], cwd=folder)
    whole = read_x(f"{folder}/whole.x.h5")
    for name, command, nodes, ranks in (("term", ["--signal=TERM"], 1, 2), ("usr1", ["--signal=USR1"], 2, 4), ("cancel", [], 2, 4)):
        process = start_slow(cluster, folder, name, nodes, ranks)
        cluster.run(["scancel", *command, f"--name={name}"])
        done = cluster.finish(process, 2 * GONE)
        checks.check(f"scancel {' '.join(command)}: exit 75, one message", done[0] == 75 and
                     done[2].count("tallsketch: error:") == 1 and "checkpoint written" in done[2], done)
        checks.check(f"scancel {' '.join(command)}: all end", wait_until_gone(PROGRAM, GONE) is not None, living(PROGRAM))
        checks.check(f"scancel {' '.join(command)}: nothing but the checkpoint", sorted(
            entry for entry in os.listdir(folder) if entry.startswith(name)) == [f"{name}.c.h5"], os.listdir(folder))
        done = cluster.run([*on_nodes(2, 3), "solve", "p.h5", "--method", "sketch-solve", "--chunk-rows", "50", "--checkpoint",
                            f"{name}.c.h5", "--resume", "-o", f"{folder}/{name}.x.h5"], cwd=folder)
        checks.check(f"scancel {' '.join(command)}: resumed, the same x", done[0] == 0 and "going on from" in done[1] and
                     same_bits(read_x(f"{folder}/{name}.x.h5"), whole), done)


def check_overdue(checks, cluster, folder):
    """A rank that hangs: all end within the deadline, with 8, and the message names rank and stage."""
    for nodes, rank in ((1, 1), (2, 3), (2, 0)):
        start = time.monotonic()
        done = cluster.run([*on_nodes(nodes, 4), "solve", "p.h5", "-o", "overdue.x.h5", "--timeout", "3"], cwd=folder,
                           environment={"TALLSKETCH_FAULT": f"{rank}:sketch:hang"})
        gone = wait_until_gone(PROGRAM, GONE)
        name = f"rank {rank} hangs, {nodes} node{'s' * (nodes > 1)}"
        checks.check(f"{name}: all gone in time", gone is not None and time.monotonic() - start < GONE, (living(PROGRAM), done))
        checks.check(f"{name}: code {done[0]} is 8", done[0] == 8, done)
        checks.check(f"{name}: one message, of rank and stage", done[2].count("--timeout") == 1 and
                     f"rank {rank} on" in done[2] and "stage 'sketch'" in done[2], done)
        checks.check(f"{name}: no x", not os.path.exists(f"{folder}/overdue.x.h5"), os.listdir(folder))


def check_alone(checks, cluster, folder):
    """An error that one rank alone knows of, as NCCL's are: the others hear its code before srun's TERM comes, so 8 comes out of
    srun and not their 75, which would have the job requeued."""
    for rank in (0, 3):
        done = cluster.run([*on_nodes(2, 4), "solve", "p.h5", "-o", "alone.x.h5", "--quiet", "--checkpoint", "alone.c.h5"],
                           cwd=folder, environment={"TALLSKETCH_FAULT": f"{rank}:reduce:alone"})
        gone = wait_until_gone(PROGRAM, GONE)
        checks.check(f"rank {rank} of 4 fails alone: code {done[0]} is 8", done[0] == 8, done)
        checks.check(f"rank {rank} of 4 fails alone: one message", done[2].count("tallsketch: error:") == 1 and
                     f"[rank {rank} on" in done[2], done)
        checks.check(f"rank {rank} of 4 fails alone: all gone, no x", gone is not None and
                     not os.path.exists(f"{folder}/alone.x.h5"), (living(PROGRAM), os.listdir(folder)))


# What srun makes of the codes of its tasks: rank 1 ends by itself, the others by the TERM that follows.
CODES = (("exit 8", "exit 75", 75), ("exit 8", "exit 8", 8), ("kill -9 $$", "exit 75", 137), ("exit 8", "kill -9 $$", 137))


def check_codes(checks, cluster, folder):
    """The highest code of all tasks comes out of srun, 128 + signal of a killed one: preemptible.sbatch and README.md rely on it."""
    script = f"{folder}/codes.sh"
    with open(script, "w", encoding="ascii") as file:
        file.write("""#!/bin/bash
if ((SLURM_PROCID == 1)); then until [[ -e $3 ]]; do sleep 0.1; done; eval "$1"; fi
trap "$2" TERM
touch "$3"
sleep 60 &
wait
""")
    os.chmod(script, 0o755)
    for number, (one, others, code) in enumerate(CODES):
        done = cluster.run([*SRUN, "--ntasks=2", script, one, others, f"{folder}/ready{number}"])
        checks.check(f"srun, rank 1: {one}, the other: {others}: {code}", done[0] == code, done)


def check_killed_rank(checks, cluster, folder):
    """kill -9 of one rank ends all, on its node and on the other, and srun does not say that all is well (C-15)."""
    for nodes, which in ((1, 0), (2, -1), (2, 0)):
        process = start_slow(cluster, folder, "killed", nodes, 4)
        ranks = living(PROGRAM)
        checks.check("4 ranks are there to be killed", len(ranks) == 4, ranks)
        if ranks:
            os.kill(ranks[which], signal.SIGKILL)
        gone = wait_until_gone(PROGRAM, GONE)
        done = cluster.finish(process, 2 * GONE)
        checks.check(f"killed rank, {nodes} nodes: all gone", gone is not None, living(PROGRAM))
        checks.check(f"killed rank, {nodes} nodes: srun says so", done[0] not in (0, None) and re.search("(?i)killed", done[2]), done)
        checks.check(f"killed rank, {nodes} nodes: no x", not os.path.exists(f"{folder}/killed.x.h5"), os.listdir(folder))
        for pid in living(PROGRAM):
            os.kill(pid, signal.SIGKILL)


def main():
    checks = Checks()
    print(f"data seed {SEED}")
    with Folder() as folder, SlurmCluster() as cluster:
        write_integer_problem(f"{folder}/p.h5", ROWS, COLS)
        for part in (check_limit, check_answers, check_errors, check_wrong_pmi, check_codes, check_alone, check_overdue, check_signals, check_killed_rank):
            run_part(checks, part, cluster, folder)
        if checks.failed:
            print(cluster.log())
    checks.check("no process of the program is left", not living(PROGRAM), living(PROGRAM))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
