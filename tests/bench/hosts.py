# SPDX-License-Identifier: Apache-2.0
"""Every collective between two hosts (network namespaces with a cable between them; needs root),
compared with the same bytes over one plain TCP connection, with PyTorch's gloo, and with OpenMPI and MPICH
where they are installed; also with a delay and with losses. ddprun and the peers take turns; each measurement has a
world of its own."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import bench
import mpi

KIB, MIB = 1024, 1024 * 1024
SIZES = {8: "8 B", KIB: "1 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB", 16 * MIB: "16 MiB"}
CALLS = ["barrier", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "reduce", "broadcast", "gather", "scatter", "send"]
BOTH_WAYS = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
ADDRESSES = ("10.213.0.1", "10.213.0.2")
# For each kind of cable: the sizes that are measured, and the number of repetitions.
CABLES = {
    "": (SIZES, 3),
    "1 ms": ({8: "8 B", 64 * KIB: "64 KiB", MIB: "1 MiB", 16 * MIB: "16 MiB"}, 1),
    "10 ms": ({8: "8 B", 64 * KIB: "64 KiB", 16 * MIB: "16 MiB"}, 1),
    "1 ms, 0.1 % lost": ({8: "8 B", 16 * MIB: "16 MiB"}, 1),
}


def ip(*words):
    bench.run(["ip", *map(str, words)])


def times_of(output):
    """{(what, bytes): microseconds} of what rank 0 prints."""
    lines = [line.split() for line in output.splitlines()]
    return {(line[0], int(line[1])): float(line[2]) for line in lines if len(line) == 3 and line[1].isdigit()}


class Hosts:
    """Two namespaces, which are removed at the end."""

    def __init__(self):
        self.names = [f"ddprun-bench-{os.getpid()}-{n}" for n in "ab"]

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "name", "cable", "netns", self.names[1])
        for name, address in zip(self.names, ADDRESSES):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def set_cable(self, text):
        """"1 ms, 0.1 % lost": on the way there and back together, the delay. False where the kernel has no netem."""
        for name in self.names:
            subprocess.run(
                ["ip", "netns", "exec", name, "tc", "qdisc", "delete", "dev", "cable", "root"], check=False, capture_output=True)
            if not text:
                continue
            delay, *loss = text.split(", ")
            netem = ["delay", f"{float(delay.split()[0]) / 2}ms", "limit", "100000"]
            netem += ["loss", f"{loss[0].split()[0]}%"] if loss else []
            added = subprocess.run(
                ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "cable", "root", "netem", *netem], check=False)
            if added.returncode:
                return False
        return True

    def world(self, command):
        """Runs a rank on each; {(what, bytes): microseconds}."""
        processes = []
        for rank, (name, address) in enumerate(zip(self.names, ADDRESSES)):
            environment = dict(
                os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", GROUP_RANK=str(rank),
                MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29511", DDPRUN_ROUND="0", DDPRUN_NODE_ADDR=address, GLOO_SOCKET_IFNAME="cable")
            processes.append(subprocess.Popen(
                ["ip", "netns", "exec", name, *map(str, command)], env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [process.communicate(timeout=bench.BOUND_S)[0] for process in processes]
        for process, output in zip(processes, outputs):
            if process.returncode:
                raise bench.Failed(f"{pathlib.Path(command[0]).name} {bench.ended_how(process.returncode)}", output)
        return times_of(outputs[0])


def values(runs, what, size):
    return [run[what, size] for run in runs if (what, size) in run]


def rows_of(cable, sizes, ours, peers):
    rows = []
    suffix = f", {cable}" if cable else ""
    for size, name in sizes.items():
        for what in CALLS:
            case = f"{what} of {name}{suffix}" if what != "barrier" else f"barrier{suffix}"
            if what == "barrier" and size != min(sizes):
                continue
            own = values(ours, what, size)
            if size < MIB:
                wire, target, met = "round-trip", "at most 3 x", lambda a, b: a <= 3 * b
            else:
                wire = "both-ways" if what in BOTH_WAYS else "one-way"
                target, met = "within 1.2 x", lambda a, b: a <= 1.2 * b
            rows.append(bench.row(case, "us", own, bench.beside(f"TCP {wire}", values(ours, wire, size)), target, met))
            for peer in peers:
                theirs = peer.of(lambda run, key=(what, size): run.get(key))
                rows.append(bench.row(case, "us", own, theirs, f"no worse than {peer.name}", lambda a, b: a <= b))
    return rows


def mpi_peers(hosts, folder):
    """[(peer, its measurement of the given sizes)]"""
    reach = folder / "reach"
    mpi.write_reach(reach, hosts.names, ADDRESSES)
    source = pathlib.Path(__file__).with_name("mpi_hosts.c")
    peers = []
    for each in mpi.ALL:
        peer = bench.Peer(each.name, each.missing())
        place = folder / each.name
        place.mkdir()
        program = peer.attempt(each.compile, source, place)
        peers.append((peer, lambda sizes, each=each, program=program: times_of(
            mpi.run(each, reach, ADDRESSES, "cable", [program, *sizes]))))
    return peers


def measure_cables(rows, hosts, mpis):
    script = pathlib.Path(__file__).with_name("torch_hosts.py")
    for cable, (sizes, repetitions) in CABLES.items():
        bench.progress(f"hosts: {cable or 'no delay'}")
        if not hosts.set_cable(cable):
            bench.progress(f"hosts: {cable}: left out, the kernel has no netem")
            continue
        peers = [(bench.torch_peer("PyTorch gloo"), lambda sizes: hosts.world([bench.torch_python(), script, *sizes]))]
        peers += [(bench.Peer(peer.name, peer.error), measure) for peer, measure in mpis]
        ours = bench.take_turns(
            repetitions, lambda: hosts.world([bench.BIN / "hosts_bench", "29512", *sizes]),
            *((peer, lambda measure=measure: measure(sizes), repetitions) for peer, measure in peers))
        rows += rows_of(cable, sizes, ours, [peer for peer, _ in peers])


def measure_all(rows):
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        raise bench.Failed("hosts: needs root, ip and tc", "")
    with Hosts() as hosts, tempfile.TemporaryDirectory() as folder:
        measure_cables(rows, hosts, mpi_peers(hosts, pathlib.Path(folder)))


if __name__ == "__main__":
    sys.exit(bench.main("hosts", measure_all))
