# SPDX-License-Identifier: Apache-2.0
"""Three nodes in network namespaces (needs root), two workers each: the time from a fault to the
end of the last old worker, and to the main of the last new worker. Faults: a killed worker, a
killed agent, a silent host (its cable is pulled), each on the last node, which hosts nothing; and
all processes of the first host killed, which serves the rendezvous. torchrun gets the same faults,
and as long for each."""
import os
import pathlib
import select
import signal
import sys
import threading
import time

import bench

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "chaos"))
import cluster as made  # noqa: E402  (its folder is known only now)
from namespace import why_not  # noqa: E402

REPETITIONS = 5
TORCHRUN_REPETITIONS = 3
ROUND_TIMEOUT_S = 75
WORKERS = 2
STEP_MS = 10


class Ends:
    """When each of these processes ended, seen through pidfds."""

    def __init__(self, pids):
        self.at = {}
        self.left = {os.pidfd_open(pid): pid for pid in pids}
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        poll = select.poll()
        for fd in self.left:
            poll.register(fd, select.POLLIN)
        until = time.monotonic() + ROUND_TIMEOUT_S + bench.BOUND_S
        while self.left and time.monotonic() < until:
            for fd, _ in poll.poll(1000):
                self.at[self.left.pop(fd)] = made.now_ns()
                poll.unregister(fd)
                os.close(fd)


def pids_of(facts):
    return {fact.pid for fact in facts}


def begun_since(cluster, known, count):
    """The stamps of the first `count` unknown workers, when all of them have stepped, else None."""
    new = [fact for fact in cluster.facts() if fact.pid not in known]
    begun = [fact.when for fact in new if fact.event == "began"]
    stepping = {fact.pid for fact in new if fact.event == "stepped"}
    return begun if len(begun) >= count and len(stepping) >= count else None


def start_beside_a_daemon(cluster):
    cluster.start_server()
    start_nodes(cluster, [])


def start_alone(cluster):
    """The first node serves."""
    cluster.endpoint = f"{cluster.hosts['a'].address}:{made.PORT}"
    start_nodes(cluster, ["--rdzv-standby=auto"])


def start_nodes(cluster, options):
    for host in cluster.hosts.values():
        cluster.start_node(host, ["--nnodes=2:3", f"--nproc-per-node={WORKERS}", "--max-restarts=1", *options],
                           cluster.worker(host, 1 << 30, STEP_MS, 0))


def start_torchrun(program):
    def start(cluster):
        hosts = list(cluster.hosts.values())
        for host in hosts:
            is_host = int(host is hosts[0])  # its name resolves nowhere, so torchrun cannot find out
            host.node = host.start(
                program, f"--rdzv-conf=is_host={is_host}", "--nnodes=2:3", f"--nproc-per-node={WORKERS}", "--max-restarts=1", "--rdzv-backend=c10d",
                "--rdzv-id=bench", f"--rdzv-endpoint={hosts[0].address}:{made.PORT}", f"--local-addr={host.address}",
                "--no-python", *cluster.worker(host, 1 << 30, STEP_MS, 0))
    return start


def agent_of(host):
    """ddprun's child; torchrun is one process."""
    return host.agent() if pathlib.Path(f"/proc/{host.node.pid}/comm").read_text(encoding="utf-8") == "ddprun\n" else host.node.pid


def kill_worker(host, workers):
    made.send_signal(workers[0], signal.SIGKILL)
    return 3


def kill_agent(host, _):
    made.send_signal(agent_of(host), signal.SIGKILL)
    return 2


def fall_silent(host, _):
    host.cable.pull()
    return 2


def kill_host(host, _):
    host.lose_power()
    return 2


def reform(start, strike, name):
    """(ms to the last old worker's end on the nodes that stay, ms to the last new main); both within ROUND_TIMEOUT_S."""
    with made.Cluster(bench.BIN.parent, "abc") as cluster:
        start(cluster)
        try:
            cluster.wait_for("first steps", lambda: begun_since(cluster, set(), 3 * WORKERS), bench.BOUND_S)
            known = pids_of(cluster.facts())
            host = cluster.hosts[name]
            own = sorted(pids_of(host.facts()))
            ends = Ends(known)
            at = made.now_ns()
            nodes = strike(host, own)
            staying = known if nodes == 3 else known - set(own)
            begun = cluster.wait_for("new round", lambda: begun_since(cluster, known, nodes * WORKERS), ROUND_TIMEOUT_S)
            cluster.wait_for("end of the old workers", lambda: staying <= set(ends.at))
        except made.Wrong as wrong:
            if "first steps" in str(wrong):
                raise bench.Failed("no first steps", f"{wrong}\n{cluster.logs()}") from wrong
            raise bench.Failed(f"no new round within {ROUND_TIMEOUT_S} s") from wrong
        return (max(ends.at[pid] for pid in staying) - at) / 1e6, (max(begun) - at) / 1e6


def measure_all(rows):
    if reason := why_not():
        raise bench.Failed(reason)
    often = (REPETITIONS, TORCHRUN_REPETITIONS)
    for case, start, strike, struck, target, bound_ms, (repetitions, torchruns) in (
            ("worker killed", start_beside_a_daemon, kill_worker, "c", "under 100 ms", 100, often),
            ("agent killed", start_beside_a_daemon, kill_agent, "c", "under 1 s", 1000, often),
            ("host silent", start_beside_a_daemon, fall_silent, "c", "under 6 s", 6000, often),
            # A leadership, a lease and the last call for more nodes: each takes a minute.
            ("serving host killed", start_alone, kill_host, "a", "under 66 s", 66_000, (1, 1))):
        bench.progress(f"reform: {case}")
        peer = bench.torch_peer("torchrun c10d", ROUND_TIMEOUT_S + bench.BOUND_S)
        ours = bench.take_turns(
            repetitions, lambda: reform(start, strike, struck),
            (peer, lambda: reform(start_torchrun(bench.torchrun()), strike, struck), torchruns))
        for index, what in enumerate(("all stopped", "all restarted")):
            rows.append(bench.row(
                f"{case}: {what}", "ms", [one[index] for one in ours], peer.of(lambda one: one[index]),
                target, lambda ms, _: ms < bound_ms, alone=True))


if __name__ == "__main__":
    sys.exit(bench.main("reform", measure_all))
