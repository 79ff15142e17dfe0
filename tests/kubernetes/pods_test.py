# SPDX-License-Identifier: Apache-2.0
"""pods_test.py BUILD: ddprun in what a pod gives it, without Kubernetes. Each pod is a set of namespaces with a host name, an
address and an /etc/hosts of its own, where ddprun is process 1, user 65534, without a capability, and can write to no file."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

DEADLINE_S = 60
SERVICE = "10.96.0.1"  # no pod's own address
SHOW = 'echo "rank $RANK of $WORLD_SIZE on $(uname -n)"'

# Runs in the pod's namespaces as root; HOSTS, NAME and the command are arguments.
ENTER = """
hosts=$1 name=$2
shift 2
hostname "$name" 2>/dev/null || echo "$name" >/proc/sys/kernel/hostname
mount --bind "$hosts" /etc/hosts
mount --bind /dev/null /etc/resolv.conf
for place in / /tmp /dev/shm /run; do mount -o "remount,bind,ro" "$place" 2>/dev/null || true; done
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
"""


def run(*words):
    subprocess.run(words, check=True)


class Pod:
    """One start of a pod. `name` stays when it comes back, the address does not."""

    def __init__(self, cluster, name, number, environment, command, known=()):
        self.name = name
        self.address = f"10.77.0.{number}"
        self.hosts = cluster.folder / f"hosts-{number}"
        self.hosts.write_text(f"127.0.0.1\tlocalhost\n{self.address}\t{name}.bert.team.svc.cluster.local\t{name}\n")
        for other in known:
            self.learn(other)
        space = cluster.add_network(number, self.address)
        self.lines = []
        self.changed = threading.Condition()
        self.is_ended = False
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", space, "unshare", "--uts", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-ec", ENTER, "sh", self.hosts, name, cluster.ddprun, *command],
            env={"PATH": os.environ["PATH"], **environment}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.is_ended = True
            self.changed.notify_all()

    def learn(self, other, name=None):
        """The name of another pod has an address from now on, as in the cluster's DNS."""
        with open(self.hosts, "a") as file:
            file.write(f"{other if name else other.address}\t{name or other.name + '.bert.team.svc.cluster.local'}\n")

    def wait_for(self, pattern, count=1):
        def has_come():
            return sum(re.search(pattern, line) is not None for line in self.lines) >= count
        with self.changed:
            self.changed.wait_for(lambda: has_come() or self.is_ended, DEADLINE_S)
            assert has_come(), f"{self.name}: no {count} lines with {pattern!r}:\n" + "\n".join(self.lines)

    def end(self, code=0):
        status = self.process.wait(DEADLINE_S)
        with self.changed:
            assert self.changed.wait_for(lambda: self.is_ended, DEADLINE_S), f"{self.name}: the output has no end"
        assert status == code, f"{self.name}: exit code {status} instead of {code}:\n" + "\n".join(self.lines)
        return self.lines

    def main_process(self):
        """ddprun's id here: the only child of unshare."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])


class Cluster:
    def __init__(self, folder, ddprun):
        self.folder = folder
        self.ddprun = ddprun
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "br0", "up")

    def add_network(self, number, address):
        space = f"pod{number}"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", f"v{number}", "master", "br0", "up")
        inside = ["ip", "-n", space]
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "address", "add", f"{address}/24", "dev", "eth0")
        run(*inside, "route", "add", "default", "dev", "eth0")
        return space


def ranks(*pods):
    rows = [row for pod in pods for row in re.findall(r"rank (\d+) of (\d+) on (\S+)", "\n".join(pod.lines))]
    return {int(rank): (int(world), host) for rank, world, host in rows}


def indexed(index):
    return {"JOB_COMPLETION_INDEX": str(index)}


def the_index_alone_makes_one_job_of_pods_whose_names_come_late(cluster):
    command = ["--nnodes=2", "--nproc-per-node=2", "--no-python", "sh", "-c", SHOW]
    second = Pod(cluster, "bert-1", 11, indexed(1), command)
    second.wait_for("rendezvous.waited.*name does not resolve")
    first = Pod(cluster, "bert-0", 12, indexed(0), command)
    second.learn(first)
    first.end()
    second.end()
    assert ranks(first, second) == {0: (4, "bert-0"), 1: (4, "bert-0"), 2: (4, "bert-1"), 3: (4, "bert-1")}, ranks(first, second)
    assert sum("does not resolve" in line for line in second.lines) == 1, second.lines


def the_five_variables_of_kubeflow_suffice(cluster):
    def environment(rank):
        return {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": str(rank),
                "PET_MASTER_ADDR": "bert-node-0-0.bert.team.svc.cluster.local", "PET_MASTER_PORT": "29500"}
    command = ["--no-python", "sh", "-c", SHOW]
    first = Pod(cluster, "bert-node-0-0", 21, environment(0), command)
    second = Pod(cluster, "bert-node-0-1", 22, environment(1), command, [first])
    first.end()
    second.end()
    assert ranks(first, second) == {rank: (4, f"bert-node-0-{rank // 2}") for rank in range(4)}, ranks(first, second)


def behind_the_address_of_a_service_is_host_decides(cluster):
    def command(is_host):
        return ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=bert:29400", f"--rdzv-conf=is_host={is_host}",
                "--no-python", "sh", "-c", SHOW]
    first = Pod(cluster, "a", 31, {}, command(1))
    second = Pod(cluster, "b", 32, {}, command(0))
    # What kube-proxy does on each machine.
    for pod in (first, second):
        pod.learn(SERVICE, "bert")
    for number in (31, 32):
        for rule in ("add table ip nat", "add chain ip nat output { type nat hook output priority -100 ; }",
                     f"add rule ip nat output ip daddr {SERVICE} dnat to {first.address}"):
            run("ip", "netns", "exec", f"pod{number}", "nft", rule)
    first.end()
    second.end()
    assert set(ranks(first, second)) == {0, 1}, ranks(first, second)


def a_pod_comes_back_under_its_name(cluster):
    command = ["--nnodes=2", "--no-python", "sh", "-c", f"{SHOW}; until [ -e {cluster.folder}/go ]; do sleep 0.05; done"]
    first = Pod(cluster, "bert-0", 41, indexed(0), command)
    second = Pod(cluster, "bert-1", 42, indexed(1), command, [first])
    first.wait_for("rank 0 of 2")
    second.wait_for("rank 1 of 2")
    os.kill(second.main_process(), 9)
    second.process.wait(DEADLINE_S)
    again = Pod(cluster, "bert-1", 43, indexed(1), command, [first])
    first.wait_for("rank 0 of 2", 2)
    again.wait_for("rank 1 of 2")
    (cluster.folder / "go").touch()
    first.end()
    again.end()


def a_pod_that_is_deleted_ends_with_143(cluster):
    worker = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    pod = Pod(cluster, "bert-0", 51, {}, ["--nproc-per-node=2", "--no-python", "sh", "-c", worker])
    pod.wait_for("^up$", 2)
    os.kill(pod.main_process(), 15)
    lines = pod.end(143)
    assert lines.count("saved") == 2, lines


CASES = [the_index_alone_makes_one_job_of_pods_whose_names_come_late, the_five_variables_of_kubeflow_suffice,
         behind_the_address_of_a_service_is_host_decides, a_pod_comes_back_under_its_name, a_pod_that_is_deleted_ends_with_143]


def skip(reason):
    if os.environ.get("DDPRUN_REQUIRE_ROOT") == "1":
        sys.exit(f"required here: {reason}")
    print(f"SKIP pods: {reason}")
    sys.exit(0)


def enter_namespaces():
    """Runs this program again where it owns the network, the mounts and the processes: all of it ends with it."""
    if os.environ.get("DDPRUN_TEST_IN_PODS") == "1":
        return
    if os.geteuid() != 0:
        skip("network namespaces need root")
    missing = [name for name in ("ip", "nft", "setpriv", "unshare") if shutil.which(name) is None]
    if missing:
        skip("without " + ", ".join(missing))
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*namespaces, "true"], stderr=subprocess.PIPE, text=True, check=False)
    if tried.returncode != 0:
        skip(f"no namespace can be made here: {tried.stderr.strip()}")
    os.environ["DDPRUN_TEST_IN_PODS"] = "1"
    os.execvp(namespaces[0], [*namespaces, sys.executable, *sys.argv])


def main():
    enter_namespaces()
    for rule in ("add table ip nat", "add chain ip nat output { type nat hook output priority -100 ; }"):
        if subprocess.run(["nft", rule], capture_output=True).returncode != 0:
            skip("the kernel has no nftables with nat")
    # Where `ip netns` keeps its names, and the pods' files: this program's own.
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        # A path of its own: the build's folder may be closed to other users.
        ddprun = shutil.copy(pathlib.Path(sys.argv[1]) / "bin" / "ddprun", folder)
        cluster = Cluster(pathlib.Path(folder), ddprun)
        for case in CASES:
            case(cluster)
            print("passed:", case.__name__.replace("_", " "), flush=True)


main()
