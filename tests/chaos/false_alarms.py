#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""false_alarms.py BUILD [SECONDS]: what is no death. An agent that gets one twentieth of a core for SECONDS (6), a cable
that loses a tenth of what goes either way for as long, a control path cut for 20 s while the nodes hear each other, a
hosting node of two that freezes for 10 s: the job's first world goes on to its end, and no restart is spent."""
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import checks
import cluster as made
from cluster import Wrong
from namespace import skip_where_impossible

STEP_MS = 50
SHARE = 0.05
LOST_PERCENT = 10
PERIOD_S = 0.1


class Starved:
    """`with` it, a process gets SHARE of a core, and has a busy neighbour that wants all of that as well: by a control group,
    or, where none can be made, by being stopped for the rest of each period."""

    def __init__(self, pid):
        self.pid = pid
        self.group = None
        self.busy = None
        self.began = 0
        self.is_over = threading.Event()
        self.pacer = threading.Thread(target=self.pace)

    def make_group(self):
        name = f"ddpc{os.getpid()}"
        for root, limit, value in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", f"{int(SHARE * PERIOD_S * 1e6)}"),
                                   ("/sys/fs/cgroup", "cpu.max", f"{int(SHARE * PERIOD_S * 1e6)} {int(PERIOD_S * 1e6)}")):
            group = pathlib.Path(root, name)
            try:
                group.mkdir()
                try:
                    if not (group / limit).exists():
                        raise OSError("no control group")
                    (group / limit).write_text(value)
                    self.home = pathlib.Path(root + self.path_below(root)) / "cgroup.procs"
                    (group / "cgroup.procs").write_text(str(self.pid))
                    return group
                except OSError:
                    group.rmdir()
            except OSError:
                pass
        return None

    def path_below(self, root):
        """Where the process is now, to be put back."""
        for line in pathlib.Path(f"/proc/{self.pid}/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, path = line.split(":", 2)
            if (root.endswith("/cpu") and "cpu" in controllers.split(",")) or (not root.endswith("/cpu") and not controllers):
                return path
        return "/"

    def check(self):
        """The neighbour wants a whole core: what it has had is all that was left over for it and the process."""
        if not self.group:
            return
        words = pathlib.Path(f"/proc/{self.busy.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        had_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        lasted_s = time.monotonic() - self.began
        if had_s > 2 * SHARE * lasted_s:
            raise Wrong(f"the agent was not starved: its neighbour had {had_s:.2f} s of {lasted_s:.1f} s")

    def pace(self):
        while not self.is_over.is_set():
            made.send_signal(self.pid, signal.SIGSTOP)
            time.sleep(PERIOD_S * (1 - SHARE))
            made.send_signal(self.pid, signal.SIGCONT)
            time.sleep(PERIOD_S * SHARE)

    def __enter__(self):
        self.group = self.make_group()
        if self.group:
            self.began = time.monotonic()
            # It begins when it is where it may do no harm.
            self.busy = subprocess.Popen(["sh", "-c", "read go; while :; do :; done"], stdin=subprocess.PIPE)
            (self.group / "cgroup.procs").write_text(str(self.busy.pid))
            self.busy.stdin.write(b"go\n")
            self.busy.stdin.close()
        else:
            self.pacer.start()
        return self

    def __exit__(self, *_):
        if not self.group:
            self.is_over.set()
            self.pacer.join()
            return
        self.busy.kill()
        self.busy.wait()
        if pathlib.Path(f"/proc/{self.pid}").exists():
            self.home.write_text(str(self.pid))
        self.group.rmdir()


class Job:
    """Nodes that run one job; the second argument of start_node is the same everywhere."""

    def __init__(self, cluster, *options):
        self.cluster = cluster
        for host in cluster.hosts.values():
            cluster.start_node(host, [f"--nnodes={len(cluster.hosts)}", "--nproc-per-node=1", "--max-restarts=3", *options],
                               cluster.worker(host, 1 << 30, STEP_MS, 0))
        self.wait_for_steps("the job's first step")

    def wait_for_steps(self, what):
        since = made.now_ns()
        ranks = len(self.cluster.hosts)
        self.cluster.wait_for(what, lambda: ranks == len(
            {fact.rank for fact in self.cluster.facts() if fact.event == "stepped" and fact.when > since}))

    def must_be_undisturbed(self, after):
        self.wait_for_steps(f"step after {after}")
        worlds = checks.worlds_of(self.cluster.facts())
        if len(worlds) != 1:
            raise Wrong(f"{len(worlds)} worlds after {after}")
        print(f"   undisturbed: {after}", flush=True)

    def end(self):
        (self.cluster.saved / "finish").touch()
        codes = [host.node.wait(60) for host in self.cluster.hosts.values()]
        if any(codes):
            raise Wrong(f"exit codes {codes}")
        checks.check_ended(self.cluster.facts())
        checks.check_curve(self.cluster.saved)
        checks.check_nothing_left(self.cluster)


def let_last(seconds, job, disturbance):
    """Looks each minute."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(60, left))
        if seconds > 60:
            job.must_be_undisturbed(f"{seconds - max(0, until - time.monotonic()):.0f} s of {disturbance}")


def three_nodes(cluster, seconds):
    cluster.start_server()
    job = Job(cluster)
    troubled = cluster.hosts["b"]
    with Starved(troubled.agent()) as starved:
        let_last(seconds, job, "an agent with a twentieth of a core")
        means = "a control group" if starved.group else "stopping it"
        starved.check()
    job.must_be_undisturbed(f"an agent had a twentieth of a core for {seconds:g} s (by {means})")
    troubled.cable.lose(["outgoing", "incoming"], LOST_PERCENT)
    let_last(seconds, job, "a lossy cable")
    troubled.cable.lose_nothing(["outgoing", "incoming"])
    job.must_be_undisturbed(f"a cable lost {LOST_PERCENT} % of what went either way for {seconds:g} s")
    cluster.cut_control_path(troubled)
    time.sleep(20)
    seen = cluster.wait_for("job at /status", cluster.job)
    silent_s = [node["heard_ago_s"] for node in seen["nodes"] if node["host"] == troubled.name]
    if not silent_s or silent_s[0] < 15:
        raise Wrong(f"the control path was not cut: the server heard the node {silent_s} s ago")
    cluster.heal_control_path(troubled)
    job.must_be_undisturbed("a control path was cut for 20 s")
    cluster.wait_for("the node at the server again", lambda: (seen := cluster.job()) and all(
        node["heard_ago_s"] < 3 and node["state"] == "running" for node in seen["nodes"]))
    job.end()


def two_nodes_one_hosts(cluster):
    hosting = cluster.hosts["a"]
    cluster.endpoint = f"{hosting.address}:{made.PORT}"
    job = Job(cluster)
    frozen = hosting.freeze()
    time.sleep(10)
    made.wake(frozen)
    job.must_be_undisturbed("the hosting node of two was frozen for 10 s")
    job.end()


def main():
    skip_where_impossible("false alarms")
    build, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 6
    for letters, live in (("abc", lambda cluster: three_nodes(cluster, seconds)), ("ab", two_nodes_one_hosts)):
        with made.Cluster(build, letters) as cluster:
            try:
                live(cluster)
            except Wrong as wrong:
                print(f"{wrong}\n{cluster.logs()}")
                sys.exit(1)


if __name__ == "__main__":
    main()
