"""Namespaces of its own for a test script: processes, network, mounts, hostname. Nothing that it starts can outlive it,
collide with other daemons of this machine or leave a network behind, even when the script itself is killed.

Used by tests/slurm/*.py, which call isolate() before anything else. Needs root and util-linux; where the machine refuses,
the script is skipped (77) and says why.
"""
import os
import shutil
import subprocess
import sys
import time

SKIPPED = 77
_MARK = "TALLSKETCH_ISOLATED"  # the namespaces that the script was started in
# The kernel ends every process of a process namespace with its first one, which ends with unshare (--kill-child).
_UNSHARE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--net", "--uts", "--ipc"]


def skip(reason):
    """Ends the script as skipped."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


def require_tools(tools):
    """tools: {program: Debian package}; skips where one is missing, naming all of them."""
    missing = [f"{tool} (package {package})" for tool, package in tools.items() if find_tool(tool) is None]
    if missing:
        skip(f"not installed: {', '.join(missing)}; ./bootstrap.sh test installs them")


def find_tool(name):
    """Path of a program; daemons lie in sbin, which need not be on a user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def isolate():
    """Runs this script again inside the namespaces; comes back only there."""
    if _is_inside():
        _furnish()
        return
    if os.geteuid() != 0:
        skip("needs root, for network namespaces and the daemons of Slurm")
    require_tools({"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"})
    probe = subprocess.run([*_UNSHARE, "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        skip("no rights to make namespaces or veth devices here (a container without CAP_SYS_ADMIN?): "
             + probe.stderr.strip())
    sys.stdout.flush()
    # The shell in between is process 1: it waits for orphans, which Python would not.
    os.execvpe("unshare", [*_UNSHARE, "bash", "-c", '"$@"; exit $?', "bash", sys.executable, *sys.argv],
               {**os.environ, _MARK: " ".join(_namespaces())})


def _namespaces():
    """Of this process: names of its process and mount namespaces, such as pid:[4026531836]."""
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt")]


def _is_inside():
    """Whether this process is in other namespaces than those where isolate() left its mark. The mark alone, in somebody's
    environment, must not lead to a mount over the machine's own /dev/shm.
    """
    outside = os.environ.get(_MARK, "").split()
    return len(outside) == 2 and all(name.startswith(kind) and name != here for name, kind, here in zip(
        outside, ("pid:[", "mnt:["), _namespaces()))


def _furnish():
    # Shared memory files of killed ranks go with this mount.
    for command in (["ip", "link", "set", "lo", "up"], ["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]):
        subprocess.run(command, check=True)


def living(program):
    """Process ids, of this world, that run a program and are no zombies."""
    found, path = [], os.path.realpath(program)
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.realpath(os.readlink(f"/proc/{entry}/exe")) == path:  # a zombie's cannot be read
                found.append(int(entry))
        except OSError:
            continue
    return sorted(found)


def wait_until_gone(program, seconds):
    """Waits until no process runs a program; the seconds that took, None if some are left after the limit."""
    start = time.monotonic()
    while living(program):
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.1)
    return time.monotonic() - start
