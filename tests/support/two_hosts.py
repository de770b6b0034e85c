"""Two hosts on one machine: n1, where the script runs, and n2, a network namespace with a hostname of its own, joined by a
virtual cable. Ranks of both talk TCP, as between nodes; the file system is shared, as on a cluster.

Used by tests/slurm/*.py after isolation.isolate(), with which everything made here goes.
"""
import json
import os
import socket
import subprocess
import time

ADDRESSES = {"n1": "10.77.0.1", "n2": "10.77.0.2"}


def _cable(*options):
    """State of n1's end of the cable, as iproute2 tells it: /sys here would be that of another network namespace."""
    shown = subprocess.run(["ip", "-json", *options, "link", "show", "dev", "cable"], check=True, capture_output=True)
    return json.loads(shown.stdout)[0]


class TwoHosts:
    """Makes the hosts. folder: for the files that it needs."""

    def __init__(self, folder):
        self.folder = folder
        socket.sethostname("n1")
        self._hosts_file()
        # pylint: disable=consider-using-with
        self.holder = subprocess.Popen(["unshare", "--net", "--uts", "bash", "-c", "hostname n2; echo ready; read -r"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            raise RuntimeError("the namespaces of n2 cannot be made")
        here = ["ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self.holder.pid)]
        for command in (here, self.on("n2", ["ip", "link", "set", "lo", "up"])):
            subprocess.run(command, check=True)
        for host, address in ADDRESSES.items():
            subprocess.run(self.on(host, ["ip", "addr", "add", f"{address}/24", "dev", "cable"]), check=True)
        self.join()
        self.agent = self._launch_agent()

    def on(self, host, command):
        """The command line that runs command on a host."""
        if host == "n1":
            return list(command)
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", *command]

    def cut(self):
        """Pulls the cable: packets are lost, nobody is told."""
        for host in ADDRESSES:
            subprocess.run(self.on(host, ["ip", "link", "set", "cable", "down"]), check=True)

    def join(self):
        """Plugs the cable in; returns when packets come through."""
        for host in ADDRESSES:
            subprocess.run(self.on(host, ["ip", "link", "set", "cable", "up"]), check=True)
        deadline = time.monotonic() + 30
        while _cable()["operstate"] != "UP":
            if time.monotonic() > deadline:
                raise RuntimeError("the cable between the hosts carries nothing")
            time.sleep(0.05)

    def crossed_bytes(self):
        """Bytes that n1 has sent through the cable."""
        return _cable("-s")["stats64"]["tx"]["bytes"]

    def mpirun(self, ranks, command, options=()):
        """The mpirun command line with the ranks dealt to both hosts, half and half."""
        half = (ranks + 1) // 2
        return [os.environ.get("MPIEXEC", "mpirun"), "--mca", "plm_rsh_agent", self.agent, "--bind-to", "none",
                *options, "--host", f"n1:{half},n2:{half}", "-n", str(ranks), *command]

    def _hosts_file(self):
        path = os.path.join(self.folder, "hosts")
        with open(path, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{address} {host}\n" for host, address in ADDRESSES.items()))
        subprocess.run(["mount", "--bind", path, "/etc/hosts"], check=True)

    def _launch_agent(self):
        """What mpirun calls in the place of ssh: AGENT [-options] HOST words of a shell command."""
        path = os.path.join(self.folder, "agent")
        enter = " ".join(self.on("n2", []))
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\n"
                       f"[[ $1 == n2 ]] || exit 1\nshift\nexec {enter} bash -c \"$*\"\n")
        os.chmod(path, 0o755)
        return path
