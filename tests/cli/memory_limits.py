#!/usr/bin/python3
"""Limits of memory from outside: ulimit -v of all ranks and of one, a memory cgroup as Slurm's --mem makes it.

A plan that does not fit ends with code 7 and one message that names the limit and what to change, on every rank; no run
hangs (OpenBLAS tries for ever to map its buffer where ulimit -v leaves no room for it); a plan that can do with less does.
Run by CTest as cli.memory_limits.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from script_runs import Checks, Folder, run  # noqa: E402  pylint: disable=C0413

MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
SHARE, RESERVE = 0.9, (256 + 8) * MIB  # of what is free; for libraries and one thread (src/host_memory.cpp)
HOST = ["--backend", "host"]


def limited(kib, rank=None):
    """A prefix that sets ulimit -v, of one rank only if so asked."""
    only = "" if rank is None else f"[[ ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} != {rank} ]] || "
    return ["bash", "-c", f'{only}ulimit -v {kib} || exit 99; exec "$@"', "bash"]


def free_for_a_rank(done):
    """Bytes that `inspect` names; None if it does not."""
    found = re.search(r"([\d.]+) (B|KiB|MiB|GiB) free for a rank", done.out)
    return float(found[1]) * UNITS[found[2]] if found else None


def refused(checks, name, done, words, folder):
    """Code 7, one message with all words, no result."""
    lines = done.own_lines()
    checks.check(f"{name}: code 7", done.code == 7, done)
    checks.check(f"{name}: one message", len(lines) == 1 and lines[0].startswith("tallsketch: error: "), done)
    checks.check(f"{name}: the message says what and how", all(word in done.err for word in words), done)
    checks.check(f"{name}: no x", not os.path.exists(os.path.join(folder, "x.h5")), folder)


def check_address_space(checks, folder):
    """ulimit -v, as little more than what is mapped before the plan as there is."""
    made = run(["generate", "p.h5", "--rows", "20k", "--cols", "64"], cwd=folder)
    checks.check("generate", made.code == 0, made)
    top = 2 << 30
    shown = run(["inspect", "p.h5", *HOST], cwd=folder, prefix=limited(top // 1024))
    free = free_for_a_rank(shown)
    if not checks.check("inspect tells what a limit leaves", shown.code == 0 and free, shown):
        return
    mapped = top - free / SHARE - RESERVE
    checks.check("what is mapped already is taken off", 50 * MIB < mapped < top - RESERVE, mapped)
    solve = ["solve", "p.h5", "-o", "x.h5", "--quiet", *HOST]
    for more in (40, 100, 180, 240):  # of which libraries and threads want RESERVE
        kib = int(mapped + more * MIB) // 1024
        refused(checks, f"{more} MiB more than is mapped", run(solve, cwd=folder, prefix=limited(kib)),
                ["ulimit", "this needs"], folder)
        refused(checks, f"{more} MiB more on rank 1 of 2", run(solve, ranks=2, cwd=folder, prefix=limited(kib, 1)),
                ["ulimit", "this needs"], folder)
    # The user knows better than the plan, and is wrong: what a rank is refused then is told by all.
    insisted = [*solve, "--memory", "1T", "--residency", "host", "--kind", "uniform", "--rows", "20M", "--cols", "100"]
    insisted.remove("p.h5")
    for ranks in (1, 2):
        done = run(insisted, ranks=ranks, cwd=folder, prefix=limited(top // 1024, None if ranks == 1 else 1))
        refused(checks, f"--memory beyond the limit, {ranks} ranks", done, ["out of host memory", "GiB"], folder)
    enough = run(solve, cwd=folder, prefix=limited(int(mapped + RESERVE + 300 * MIB) // 1024))
    checks.check("enough is enough", enough.code == 0 and os.path.exists(os.path.join(folder, "x.h5")), enough)


def own_group():
    """(folder of this process's memory cgroup, name of its limit); None where there is none to be seen."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for number, controllers, path in groups:
        legacy = "memory" in controllers.split(",")
        if not legacy and not (number == "0" and not controllers):
            continue
        for mount in mounts:
            kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
            if (legacy and kind == "cgroup" and "memory" in options) or (not legacy and kind == "cgroup2"):
                below = os.path.relpath(path, mount[3])
                folder = os.path.normpath(os.path.join(mount[4], "" if below.startswith("..") else below))
                limit = "memory.limit_in_bytes" if legacy else "memory.max"
                if os.path.isdir(folder) and (legacy or os.path.exists(os.path.join(folder, limit))):
                    return folder, limit
    return None


def check_control_group(checks, folder):
    """A group below this process's own, with so much memory; not everybody may make one."""
    found = own_group()
    group = found and os.path.join(found[0], f"tallsketch-test-{os.getpid()}")
    try:
        if not found:
            raise OSError("no memory cgroup is mounted here")
        os.mkdir(group)
    except OSError as error:
        print(f"skipped: the part on cgroups: {error}")
        return
    try:
        limit = os.path.join(group, found[1])
        if not os.path.exists(limit):
            print(f"skipped: the part on cgroups: {group} has no {found[1]}")
            return
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(200 * MIB))
        enter = ["bash", "-c", f'echo $$ > {group}/cgroup.procs || exit 99; exec "$@"', "bash"]
        rows = ["--kind", "uniform", "--rows", "500k", "--cols", "100"]  # 200 MB
        outside = run(["inspect", *rows, *HOST], cwd=folder)
        inside = run(["inspect", *rows, *HOST], cwd=folder, prefix=enter)
        checks.check("outside A is kept in memory", outside.code == 0 and "A kept in memory" in outside.out, outside)
        checks.check("inside it is not", inside.code == 0 and "chunk by chunk" in inside.out, inside)
        free = free_for_a_rank(inside)
        checks.check("no more is free than the group leaves", free and free <= SHARE * 200 * MIB, inside)
        solved = run(["solve", *rows, *HOST, "-o", "y.h5", "--quiet"], cwd=folder, prefix=enter)
        checks.check("and it is solved within the limit", solved.code == 0, solved)
        refused(checks, "a sketch too large for the group",
                run(["solve", "--kind", "uniform", "--rows", "10M", "--cols", "5000", "-o", "x.h5", "--quiet", *HOST],
                    cwd=folder, prefix=enter), ["cgroup", "--mem"], folder)
    finally:
        os.rmdir(group)


def main():
    checks = Checks()
    with Folder() as top:
        for part in (check_address_space, check_control_group):
            folder = os.path.join(top, part.__name__)
            os.mkdir(folder)
            part(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
