"""A Slurm cluster of two nodes, n1 and n2 (two_hosts.py), on this machine: munged, slurmctld and a slurmd on each, without
accounting. Commands are run on n1.

Used by tests/slurm/*.py after isolation.isolate(). stop() is called on every way out, and whatever it might miss goes with
the process namespace.
"""
import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from isolation import find_tool, require_tools, skip
from script_runs import Checks
from two_hosts import ADDRESSES, TwoHosts

PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client",
            "srun": "slurm-client", "scontrol": "slurm-client"}
CPUS = 4  # that a node says it has: ranks then share the machine's
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")

_SLURM_CONF = """
ClusterName=test
SlurmctldHost=n1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its old credentials have expired.
AuthInfo=socket={folder}/run/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
# Each node its own: the pmix plug-ins of two nodes would make the same folder.
TmpFS={folder}/tmp/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdTimeout=30
KillWait=5
# Jobs start at once, and start again soon after a requeue.
SchedulerParameters=sched_interval=5,bf_interval=5
# More CPUs than the machine has.
SlurmdParameters=config_overrides
NodeName=n1 NodeAddr=10.77.0.1 CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{gpus} State=UNKNOWN
NodeName=n2 NodeAddr=10.77.0.2 CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class _Part(Checks):
    """The checks of a part, with what was said about those that failed."""

    def __init__(self):
        super().__init__()
        self.reasons = ""

    def check(self, name, condition, why=""):
        if not condition:
            self.reasons += str(why)
        return super().check(name, condition, why)


def run_part(checks, part, *arguments):
    """part(checks, *arguments). Once more, and says so, where it failed because Open MPI crashed in MPI_Init under srun: seen
    once in some 500 launches (Open MPI 4.1.4, Slurm 22.05, four busy loops beside two cores), before our code has begun.
    """
    for attempt in (1, 2):
        trial = _Part()
        part(trial, *arguments)
        crashed = "Process received signal" in trial.reasons and "during shared memory initialization" in trial.reasons
        if not (crashed and attempt == 1):
            break
        print(f"note: {part.__name__} again, because Open MPI crashed in MPI_Init; what failed above does not count", flush=True)
    checks.passed += trial.passed
    checks.failed += trial.failed
    print(f"{part.__name__}: done, {checks.passed + len(checks.failed)} checks so far", flush=True)


def require_slurm():
    """Skips the script where a package is missing."""
    require_tools(PACKAGES)


class SlurmCluster:
    """with SlurmCluster() as cluster: cluster.run(["srun", ...]). Its folder is removed at the end."""

    def __init__(self):
        self.folder, self.daemons = tempfile.mkdtemp(prefix="tallsketch-slurm-"), []
        folder = self.folder
        self.environment = {**_without_slurm(os.environ), "SLURM_CONF": f"{folder}/etc/slurm.conf",
                            "TMPDIR": f"{folder}/tmp"}

    def __enter__(self):
        atexit.register(self.stop)
        try:
            self._start()
            if "pmix" not in "".join(self.run(["srun", "--mpi=list"])[1:]):
                skip("this Slurm has no pmix plug-in, which Open MPI needs (Debian 12: package slurm-wlm-basic-plugins)")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def run(self, command, seconds=60, environment=None, cwd=None):
        """Runs a command on n1; (code, stdout, stderr). Code None: it ran into the limit."""
        return self.finish(self.start(command, environment, cwd), seconds)

    @staticmethod
    def finish(process, seconds):
        """The same of a process from start(). After the limit all that it started is ended, too, and so lets go of the pipes."""
        try:
            out, err = process.communicate(timeout=seconds)
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return None, out, err

    def start(self, command, environment=None, cwd=None):
        """Starts a command on n1, with its output in pipes."""
        return subprocess.Popen(list(map(str, command)), cwd=cwd or self.folder, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**self.environment, **(environment or {})}, start_new_session=True)

    def submit(self, command, environment=None, cwd=None):
        """Job number of an sbatch command line, without the word sbatch."""
        code, out, err = self.run(["sbatch", "--parsable", *command], environment=environment, cwd=cwd)
        if code != 0:
            raise RuntimeError(f"sbatch {command}: exit {code}: {err}")
        return out.strip()

    def job(self, number):
        """What scontrol shows of a job (or a task of an array, J_T), {name: value}."""
        code, out, err = self.run(["scontrol", "--oneliner", "show", "job", number])
        if code != 0 or not out.strip():
            raise RuntimeError(f"scontrol show job {number}: exit {code}: {err}")
        return dict(re.findall(r"(\w+)=(\S*)", out.splitlines()[0]))

    def wait_for(self, number, states=ENDED, seconds=90):
        """Waits until a job is in one of the states; its record then, or when time is up."""
        deadline = time.monotonic() + seconds
        while True:
            record = self.job(number)
            if record["JobState"] in states or time.monotonic() > deadline:
                return record
            time.sleep(0.2)

    def idle(self):
        """True when no node runs or cleans up anything."""
        return self.run(["sinfo", "-h", "-N", "-o", "%T"])[1].split() == ["idle"] * len(ADDRESSES)

    def wait_until_idle(self, seconds=60):
        """Waits for idle nodes; whether they are."""
        deadline = time.monotonic() + seconds
        while not self.idle():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def log(self, ending=".log", lines=12):
        """The last lines of all logs, or of what the daemons print (.out), for messages."""
        folder, text = f"{self.folder}/log", ""
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in filter(lambda name: name.endswith(ending), names):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text += f"--- {name}\n" + "".join(file.readlines()[-lines:])
        return text

    def stop(self):
        """Ends all daemons and what they started; a second call does nothing."""
        daemons, self.daemons = self.daemons, []
        if len(daemons) > 1 and daemons[1].poll() is None:
            self.run(["scancel", "--full", "--signal=KILL", "--user=root"], seconds=10)
        for process in reversed(daemons):
            process.terminate()
        for process in daemons:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self):
        for path in ("etc", "run", "state", "log", "spool/n1", "spool/n2", "tmp/n1", "tmp/n2"):
            os.makedirs(f"{self.folder}/{path}")
        os.chmod(self.folder, 0o755)  # munged insists
        self.hosts = TwoHosts(self.folder)
        self._configure()
        run = f"{self.folder}/run"
        self._daemon("n1", ["munged", "--foreground", f"--key-file={run}/munge.key", f"--socket={run}/munge.socket",
                            f"--pid-file={run}/munged.pid", f"--seed-file={run}/munge.seed",
                            f"--log-file={self.folder}/log/munged.log"])
        self._wait("munged", lambda: os.path.exists(f"{run}/munge.socket"))
        self._daemon("n1", ["slurmctld", "-D"])
        for host in ADDRESSES:
            self._daemon(host, ["slurmd", "-D", "-N", host])
        self._wait("the nodes", self.idle)

    def _configure(self):
        key = f"{self.folder}/run/munge.key"
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        # Device nodes that stand for two GPUs a node, so that Slurm hands out CUDA_VISIBLE_DEVICES.
        for number in range(2):
            os.mknod(f"{self.folder}/gpu{number}", 0o20666, os.makedev(1, 3))
        texts = {"slurm.conf": _SLURM_CONF.format(folder=self.folder, cpus=CPUS, gpus=2),
                 "gres.conf": f"NodeName=n[1-2] Name=gpu File={self.folder}/gpu[0-1]\n",
                 "cgroup.conf": "CgroupPlugin=cgroup/v1\n"}
        for name, text in texts.items():
            with open(f"{self.folder}/etc/{name}", "w", encoding="ascii") as file:
                file.write(text)

    def _daemon(self, host, command):
        command = [find_tool(command[0]), *command[1:]]
        with open(f"{self.folder}/log/{os.path.basename(command[0])}.{host}.out", "wb") as output:
            # pylint: disable=consider-using-with
            self.daemons.append(subprocess.Popen(self.hosts.on(host, command), env=self.environment, cwd=self.folder,
                                                 stdin=subprocess.DEVNULL, stdout=output, stderr=output))

    def _wait(self, what, ready, seconds=60):
        deadline = time.monotonic() + seconds
        while not ready():
            dead = [process.args for process in self.daemons if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not come up{f'; {dead} ended' if dead else ''}\n{self.log('.out')}")
            time.sleep(0.1)


def _without_slurm(environment):
    """Without the settings of another Slurm, under which the test itself may run."""
    return {name: value for name, value in environment.items() if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
