# SPDX-License-Identifier: Apache-2.0
"""A Slurm of several nodes on this machine: Debian's slurmctld and slurmd, with a munged of their own.

Everything lives in a network, mount and process namespace: nothing of /etc is touched, no port of this machine is
used, and all of it ends with the first process of the namespace. Each node has a name and a loopback address.
"""
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NODES = 4
DEADLINE_S = 60
FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")
# Switches that the numbers of the nodes do not follow.
TOPOLOGY = """SwitchName=odd Nodes=n[1,3]
SwitchName=even Nodes=n[2,4]
SwitchName=top Switches=odd,even
"""
PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo", "squeue"]

CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SchedulerType=sched/builtin
MpiDefault=none
TopologyPlugin=topology/tree
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
{nodes}
PartitionName=test Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def why_not():
    """Empty where Slurm can run in namespaces of its own, else the reason for a skip. DDPRUN_REQUIRE_SLURM=1: then
    this program ends with an error."""
    reason = ""
    if absent := [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]:
        reason = f"Slurm's {', '.join(absent)} not installed"
    elif os.geteuid() != 0:
        reason = "namespaces need root"
    elif (tried := subprocess.run([*NAMESPACES, "true"], stderr=subprocess.PIPE, text=True, check=False)).returncode != 0:
        reason = f"no namespace can be made here: {tried.stderr.strip()}"
    if reason and os.environ.get("DDPRUN_REQUIRE_SLURM") == "1":
        sys.exit(f"DDPRUN_REQUIRE_SLURM=1, but {reason}")
    return reason


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def why_no_cgroups():
    """Empty where Slurm can make control groups of version 1."""
    if os.access(FREEZER, os.W_OK) and (FREEZER / "cgroup.procs").exists():
        return ""
    return "no freezer control groups that can be made"


def are_cgroups_removed():
    """Slurm leaves one for each node, and a step's are in use while its daemon ends."""
    try:
        for node in numbers():
            for folder, _, _ in os.walk(FREEZER / f"slurm_n{node}", topdown=False):
                for process in (pathlib.Path(folder) / "cgroup.procs").read_text().split():
                    os.kill(int(process), signal.SIGKILL)
                os.rmdir(folder)
    except OSError:
        return False
    return True


def enter_namespace():
    """Runs this program again as the first process of its own namespaces. Requires root."""
    if os.environ.get("DDPRUN_TEST_IN_SLURM") == "1":
        return
    os.environ["DDPRUN_TEST_IN_SLURM"] = "1"
    os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, *sys.argv])


def processes(name, node):
    """Ids of the programs of this name that Slurm has started on that node."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            is_named = (folder / "comm").read_text().strip() == name
            if is_named and f"SLURMD_NODENAME={node}\0".encode() in (folder / "environ").read_bytes() + b"\0":
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue  # no process, or gone
    return found


def numbers():
    return range(1, NODES + 1)


def address(number):
    return f"10.88.0.{number}"


class Cluster:
    """Requires: enter_namespace() was called. `proctrack` decides which processes get a step's signals: every one
    (linuxproc), those of the task's process group (pgid), or the tasks alone (cgroup, as on most clusters)."""

    def __init__(self, proctrack="linuxproc"):
        self.proctrack = proctrack
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-slurm-"))
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"), PATH=search_path())
        self.daemons = []
        self.make_network()
        self.write_hosts()
        self.write_config()
        self.start("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
                   f"--socket={self.folder}/munge.sock", f"--pid-file={self.folder}/munge.pid",
                   f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed")
        self.wait_for(lambda: (self.folder / "munge.sock").exists(), "munged")
        self.start("slurmctld", "-D")
        for number in numbers():
            self.start("slurmd", "-D", "-N", f"n{number}")
        self.wait_for(lambda: self.idle_nodes() == NODES, "nodes")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.kill()
        for daemon in self.daemons:
            daemon.wait()
        if self.proctrack == "cgroup":
            self.wait_for(are_cgroups_removed, "control groups")
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_network(self):
        """One address per node. Slurm needs a device that is not loopback."""
        for command in ["link set lo up", "link add nodes type veth peer name end", "link set nodes up",
                        "link set end up", *(f"addr add {address(number)}/24 dev nodes" for number in numbers())]:
            subprocess.run(["ip", *command.split()], check=True)

    def write_hosts(self):
        hosts = self.folder / "hosts"
        lines = ["127.0.0.1 localhost", f"127.0.0.1 {os.uname().nodename}"]
        lines += [f"{address(number)} n{number}" for number in numbers()]
        hosts.write_text("\n".join(lines) + "\n")
        subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)

    def write_config(self):
        nodes = "\n".join(f"NodeName=n{number} NodeHostname={os.uname().nodename} NodeAddr={address(number)} "
                          f"Port={26820 + number} CPUs=2 RealMemory=1000 State=UNKNOWN" for number in numbers())
        (self.folder / "slurm.conf").write_text(
            CONFIG.format(host=os.uname().nodename, folder=self.folder, nodes=nodes, count=NODES,
                          proctrack=self.proctrack))
        (self.folder / "topology.conf").write_text(TOPOLOGY)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        for name in ["state", *(f"spool-n{number}" for number in numbers())]:
            (self.folder / name).mkdir()

    def start(self, *command):
        log = open(self.folder / "daemons.log", "ab")
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log))
        log.close()

    def idle_nodes(self):
        shown = subprocess.run(["sinfo", "--noheader", "--states=idle", "--format=%D"], env=self.environment,
                               capture_output=True, text=True, timeout=DEADLINE_S)
        return sum(int(line) for line in shown.stdout.split() if line.isdigit())

    def wait_for(self, is_so, what):
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} of Slurm not ready within {DEADLINE_S} s:\n{self.logs()}")
            time.sleep(0.05)

    def logs(self):
        parts = [f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in self.folder.glob("*.log")]
        return "\n".join(parts)

    def begin(self, *command):
        """As run, not waited for."""
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, *command, variables=None):
        """The command's exit code, standard output and standard error."""
        return subprocess.run(command, env={**self.environment, **(variables or {})}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=DEADLINE_S)
