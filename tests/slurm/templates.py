#!/usr/bin/python3
"""The batch templates as they are shipped, on a real Slurm of two nodes without GPUs: first tries, a user's files, job states,
requeueing, a scaling study as an array, and what a rank sees where a node has GPUs.

Run by CTest as slurm.templates; skipped without root, the rights to make namespaces, or Slurm.
"""
import glob
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from isolation import isolate, living, wait_until_gone  # noqa: E402  pylint: disable=C0413
from slurm_cluster import SlurmCluster, require_slurm, run_part  # noqa: E402  pylint: disable=C0413

# pylint: disable=wrong-import-position
require_slurm()
isolate()
from integer_problem import SEED, read_x, same_bits, write_integer_problem  # noqa: E402
from script_runs import PROGRAM, SOURCE, Checks, Folder, run, run_command, strict_json  # noqa: E402

ROWS, COLS = 16000, 8
SITE = {"TALLSKETCH": PROGRAM}  # the one setting that a build folder somewhere else needs
SLOW = ["--method", "sketch-solve", "--chunk-rows", "100", "--checkpoint-every", "0"]  # 80 checkpoints a rank on 2 ranks


def text(path):
    """A file's text; empty if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Project:
    """A user's folder with the slurm/ folder in it, and jobs submitted from there."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        shutil.copytree(os.path.join(SOURCE, "slurm"), f"{folder}/slurm")
        write_integer_problem(f"{folder}/p.h5", ROWS, COLS)

    def submit(self, *command, **settings):
        """Job number; settings are environment variables."""
        return self.cluster.submit(command, environment={**SITE, **settings}, cwd=self.folder)

    def log(self, number):
        """What a job (or all tasks of an array) printed."""
        return "".join(text(path) for path in sorted(glob.glob(f"{self.folder}/tallsketch*-{number}*.log")))

    def finish(self, number, states=None):
        """(state, exit code as Slurm writes it, log) of a job that has ended."""
        record = self.cluster.wait_for(number, states) if states else self.cluster.wait_for(number)
        return record["JobState"], record["ExitCode"], self.log(number)

    def report(self, name):
        """A report; empty if there is none."""
        content = text(f"{self.folder}/{name}")
        return strict_json(content) if content else {}


def check_first_tries(checks, project):
    """Without arguments each solves something, on all nodes that it asks for, and shows the srun line."""
    jobs = {name: project.submit(f"slurm/{name}.sbatch") for name in ("single_node", "multi_node", "preemptible")}
    for name, number in jobs.items():
        nodes = 2 if name == "multi_node" else 1
        done = project.finish(number)
        report = project.report(f"tallsketch-{number}.json")
        checks.check(f"{name}: completed", done[:2] == ("COMPLETED", "0:0"), done)
        checks.check(f"{name}: shows the srun line", f"+ srun --mpi=pmix --kill-on-bad-exit=1 --distribution=block:block --nodes={nodes} --ntasks={2 * nodes} "
                     "--ntasks-per-node=2 --cpus-per-task=2 " in done[2] and "gpu" not in done[2], done)
        checks.check(f"{name}: solved, on {nodes} nodes", report.get("status") == "solved" and
                     (report["comm"]["size"], report["comm"]["nodes"]) == (2 * nodes, nodes), report)
        checks.check(f"{name}: x", read_x(f"{project.folder}/tallsketch-{number}.x.h5") is not None, done)


def check_own_files(checks, project):
    """A user's file and options; from a folder elsewhere; settings of one job; another site file."""
    run(["solve", "p.h5", "--method", "sketch-solve", "-o", "whole.x.h5"], cwd=project.folder)
    whole = read_x(f"{project.folder}/whole.x.h5")
    other = os.path.join(project.folder, "else where")
    os.makedirs(other, exist_ok=True)
    shutil.copy(f"{project.folder}/slurm/site.env", f"{other}/my site.env")
    with open(f"{other}/my site.env", "a", encoding="ascii") as file:
        file.write("TALLSKETCH_RANKS_PER_NODE=3\n")
    cases = {
        "own file": (["slurm/single_node.sbatch"], {}, 2),
        "one setting for one job": (["slurm/single_node.sbatch"], {"TALLSKETCH_RANKS_PER_NODE": "4"}, 4),
        "by --export": ([f"--export=ALL,TALLSKETCH={PROGRAM},TALLSKETCH_RANKS_PER_NODE=1", "slurm/multi_node.sbatch"], {}, 2),
        "another site file": (["slurm/single_node.sbatch"], {"TALLSKETCH_SITE": f"{other}/my site.env"}, 3),
        "from elsewhere": ([f"--chdir={other}", "slurm/single_node.sbatch"], {"TALLSKETCH_SLURM": f"{project.folder}/slurm"}, 2)}
    jobs = {}
    for number, (name, (command, settings, _)) in enumerate(cases.items()):
        x = f"{project.folder}/own{number}"
        jobs[name] = project.submit(*command, f"{project.folder}/p.h5", "--method", "sketch-solve", "-o", f"{x}.x.h5", "--report",
                                    f"{x}.json", **settings), number
    for name, (job, number) in jobs.items():
        state, code, _ = project.finish(job)
        report = project.report(f"own{number}.json")
        checks.check(f"{name}: solved on {cases[name][2]} ranks", (state, code) == ("COMPLETED", "0:0") and
                     report.get("comm", {}).get("size") == cases[name][2], (state, code, project.log(job), report.get("comm")))
        checks.check(f"{name}: the x of one rank", same_bits(read_x(f"{project.folder}/own{number}.x.h5"), whole), name)


def check_failures(checks, project):
    """The program's exit code is the job's; mistakes in the site's settings are told in one line."""
    cases = {"missing file": (3, ["slurm/single_node.sbatch", "none.h5"], {}, "cannot open 'none.h5'"),
             "missing file, preemptible": (3, ["slurm/preemptible.sbatch", "none.h5"], {}, "cannot open 'none.h5'"),
             "unknown option": (2, ["slurm/multi_node.sbatch", "p.h5", "--fast"], {}, "not expected: --fast"),
             "no site file": (2, ["slurm/single_node.sbatch"], {"TALLSKETCH_SITE": "/none.env"}, "no site file '/none.env'"),
             "no program": (2, ["slurm/single_node.sbatch"], {"TALLSKETCH": "/none"}, "TALLSKETCH='/none' is no program"),
             "too many ranks": (2, ["slurm/single_node.sbatch"], {"TALLSKETCH_RANKS_PER_NODE": "5"}, "5 ranks a node, and"),
             "GPUs that are no number": (2, ["slurm/single_node.sbatch"], {"TALLSKETCH_GPUS_PER_NODE": "x"}, "TALLSKETCH_GPUS_PER_NODE 'x'"),
             "requeues that are no number": (2, ["slurm/preemptible.sbatch"], {"TALLSKETCH_MAX_REQUEUES": "often"}, "TALLSKETCH_MAX_REQUEUES 'often'"),
             "array without room": (2, ["--nodes=1", "--array=4", "slurm/scaling_array.sbatch", "--rows", "1k", "--repeats", "1",
                                        "--out", "none"], {}, "sbatch --nodes=2")}
    jobs = {name: project.submit(*command, **settings) for name, (_, command, settings, _) in cases.items()}
    for name, (code, _, _, words) in cases.items():
        record = project.cluster.wait_for(jobs[name])
        log = project.log(jobs[name])
        checks.check(f"{name}: FAILED with exit code {code}", (record["JobState"], record["ExitCode"], record["Reason"]) == (
            "FAILED", f"{code}:0", "NonZeroExitCode"), (record, log))
        checks.check(f"{name}: says why, once", log.count(words) == 1, log)


def interrupted(project, *command):
    """Submits a preemptible job; (job number, checkpoint) once it has saved itself for the first time."""
    number = project.submit(*command)
    checkpoint = f"{project.folder}/tallsketch-{number}.checkpoint.h5"
    deadline = time.monotonic() + 60
    while not os.path.exists(checkpoint) and time.monotonic() < deadline:
        time.sleep(0.02)
    return number, checkpoint


def check_requeue(checks, project):
    """USR1, as before the time limit: saved, queued again, resumed, with the x of a job that nobody stopped (C-39)."""
    number, checkpoint = interrupted(project, "slurm/preemptible.sbatch", "p.h5", "-o", "r.x.h5", *SLOW)
    project.cluster.run(["scancel", "--signal=USR1", number])
    cancelled, its_checkpoint = interrupted(project, "slurm/preemptible.sbatch", "p.h5", "-o", "c.x.h5", *SLOW)
    project.cluster.run(["scancel", cancelled])
    last, _ = interrupted(project, "--export=ALL,TALLSKETCH_MAX_REQUEUES=0", "slurm/preemptible.sbatch", "p.h5", "-o", "m.x.h5", *SLOW)
    deadline = time.monotonic() + 30
    while "input: A" not in project.log(last) and time.monotonic() < deadline:
        time.sleep(0.1)
    state, log = project.cluster.job(last)["JobState"], project.log(last)
    checks.check("the log of a running job has the first lines, as plain text (C-38)", state == "RUNNING" and "input: A" in log and
                 not any(character in log for character in "\r\x1b\b"), (state, log))
    project.cluster.run(["scancel", "--signal=TERM", last])

    state, code, log = project.finish(number)
    record = project.cluster.job(number)
    checks.check("requeued: completed after one restart", (state, code, record["Restarts"]) == ("COMPLETED", "0:0", "1"), (record, log))
    checks.check("requeued: saved, then went on, in one log", "checkpoint written" in log and f"+ scontrol requeue {number}" in log and
                 "going on from" in log and log.count("+ srun") == 2, log)
    checks.check("requeued: the x of an uninterrupted run", same_bits(read_x(f"{project.folder}/r.x.h5"),
                                                                     read_x(f"{project.folder}/whole.x.h5")), log)
    checks.check("requeued: no checkpoint is left", not os.path.exists(checkpoint), checkpoint)

    state, code, log = project.finish(cancelled)
    checks.check("cancelled by the user: not queued again, the checkpoint stays", state == "CANCELLED" and
                 "not queued again" in log and os.path.exists(its_checkpoint), (state, code, log))
    again = project.submit("slurm/preemptible.sbatch", "p.h5", "-o", "c.x.h5", *SLOW, TALLSKETCH_CHECKPOINT=its_checkpoint)
    state, code, log = project.finish(last)
    checks.check("restarted often enough: FAILED with 75", (state, code) == ("FAILED", "75:0") and
                 "TALLSKETCH_MAX_REQUEUES is 0" in log, (state, code, log))
    state, code, log = project.finish(again)
    checks.check("another job goes on from that checkpoint", (state, code) == ("COMPLETED", "0:0") and "going on from" in log and
                 same_bits(read_x(f"{project.folder}/c.x.h5"), read_x(f"{project.folder}/whole.x.h5")), log)


# Stands for tallsketch: rank 1 fails with 8, the others answer Slurm's TERM with 75; the second try saves something first.
FAILING = """#!/bin/bash
while [[ $1 != --checkpoint ]]; do shift; done
ready=$2.ready.${SLURM_RESTART_COUNT:-0}
if ((SLURM_PROCID == 1)); then
  until [[ -e $ready ]]; do sleep 0.1; done
  [[ ${SLURM_RESTART_COUNT:-0} != 1 ]] || echo saved >"$2"
  exit 8
fi
trap 'exit 75' TERM
touch "$ready"
sleep 60 &
wait
"""


def check_failing(checks, project):
    """A job that fails again and again is not queued again for ever: not where the program says 8, and not where srun makes 75 of it."""
    failing = f"{project.folder}/failing.sh"
    with open(failing, "w", encoding="ascii") as file:
        file.write(FAILING)
    os.chmod(failing, 0o755)
    masked = project.submit("slurm/preemptible.sbatch", TALLSKETCH=failing)
    # At most one requeue: if it is queued again, the test shall fail soon.
    overdue = project.submit("slurm/preemptible.sbatch", "p.h5", "--timeout", "3", *SLOW, TALLSKETCH_FAULT="1:sketch:hang",
                             TALLSKETCH_MAX_REQUEUES="1")
    state, code, log = project.finish(overdue)
    checks.check("a rank that hangs: FAILED, soon, and the message is in the log", (state, code) == ("FAILED", "8:0") and
                 "works in stage 'sketch' without progress for" in log, (state, code, log))
    record = project.cluster.wait_for(masked, seconds=240)  # each time Slurm waits until old credentials have expired
    log = project.log(masked)
    checks.check("failed, and 75 by srun: twice more without a save, then never again", (record["JobState"], record["ExitCode"]) == (
        "FAILED", "75:0") and "not queued again: 3 tries in a row saved nothing" in log, (record, log))
    checks.check("failed, and 75 by srun: a save begins the count anew", record.get("Restarts") == "4" and
                 log.count("+ scontrol requeue") == 4, (record, log))
    left = [name for name in os.listdir(project.folder) if name.startswith(f"tallsketch-{masked}.") and "ready" not in name]
    checks.check("failed, and 75 by srun: nothing is left but the checkpoint", left == [f"tallsketch-{masked}.checkpoint.h5"], left)


def check_scaling(checks, project):
    """A study as a job array, and within one job: the same files; drawn into a table."""
    small = ["--rows", "20k", "--rows-per-rank", "10k", "--cols", "8", "--repeats", "1"]
    array = project.submit("--wait", "slurm/scaling_array.sbatch", *small)
    wanted = [f"{mode}.ranks-000{ranks}.run-01.json" for mode in ("strong", "weak") for ranks in (1, 2, 4)]

    def results(folder):
        return sorted(os.path.basename(path) for path in glob.glob(f"{project.folder}/{folder}/*.json"))

    checks.check("scaling array: a result of every task", results("scaling") == wanted, project.log(array))
    for ranks in (1, 2, 4):
        comm = project.report(f"scaling/weak.ranks-000{ranks}.run-01.json").get("comm", {})
        checks.check(f"scaling array: {ranks} ranks fill nodes", (comm.get("size"), comm.get("nodes")) == (ranks, (ranks + 1) // 2), comm)
    done = project.cluster.run(["salloc", "--nodes=2", "--exclusive", "slurm/scaling_study.sh", "--ranks", "1 2 4", *small,
                                "--out", "inside"], environment=SITE, cwd=project.folder)
    checks.check("scaling study in salloc: the same", done[0] == 0 and results("inside") == wanted and "+ srun" in done[1], done)
    drawn = run_command([sys.executable, f"{project.folder}/slurm/plot_scaling.py", f"{project.folder}/scaling", "--no-pictures"])
    checks.check("scaling array: a table", drawn.code == 0 and len(drawn.out.splitlines()) == 7, drawn)


def check_gpus(checks, project):
    """With GPUs (here device files that Slurm takes for some) every rank sees all of its node (C-22), asked for or not."""
    seen = f"{project.folder}/seen.sh"
    with open(seen, "w", encoding="ascii") as file:
        file.write('#!/bin/bash\necho "rank $SLURM_PROCID on $(hostname) sees $CUDA_VISIBLE_DEVICES with $*"\n')
    os.chmod(seen, 0o755)
    for name, asked, request in (("not asked for by the job", {}, None), ("asked for", {"SBATCH_GPUS_PER_NODE": "2"}, "gres:gpu:2")):
        number = project.submit("slurm/multi_node.sbatch", "p.h5", TALLSKETCH=seen, TALLSKETCH_GPUS_PER_NODE="2", **asked)
        state, code, log = project.finish(number)
        ranks = sorted(line for line in log.splitlines() if line.startswith("rank "))
        checks.check(f"GPUs, {name}: a rank each, and all of the node's visible", (state, code) == ("COMPLETED", "0:0") and ranks == [
            f"rank {rank} on n{1 + rank // 2} sees 0,1 with solve --backend cuda p.h5" for rank in range(4)], log)
        checks.check(f"GPUs, {name}: by --gpus-per-node", "--gpus-per-node=2" in log, log)
        record = project.cluster.job(number)
        checks.check(f"GPUs, {name}: the job's request", record.get("TresPerNode") == request, record)


def main():
    checks = Checks()
    print(f"data seed {SEED}")
    with Folder() as folder, SlurmCluster() as cluster:
        project = Project(cluster, folder)
        for part in (check_first_tries, check_own_files, check_failures, check_requeue, check_failing, check_scaling, check_gpus):
            run_part(checks, part, project)
        checks.check("all processes have ended", wait_until_gone(PROGRAM, 30) is not None, living(PROGRAM))
        if checks.failed:
            print(cluster.log())
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
