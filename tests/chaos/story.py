#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""story.py BUILD: one job of two to three nodes and a spare, and one fault after the other. Its training curve stays
what it was without any of them, and after each one `/status` says in plain words what happened; this prints it."""
import signal
import sys
import time

import checks
import cluster as made
from cluster import Wrong
from namespace import skip_where_impossible

STEP_MS = 30
OPTIONS = ["--nnodes=2:3+1", "--nproc-per-node=2", "--max-restarts=3", "--shutdown-timeout=3",
           "--rdzv-conf=join_timeout=120,last_call_timeout=2"]


class Story:
    def __init__(self, cluster):
        self.cluster = cluster
        self.world = None
        self.chapter = ""

    def begin(self, chapter):
        self.chapter = chapter
        print(f"\n== {chapter}", flush=True)

    def join(self, letter):
        host = self.cluster.hosts[letter]
        self.cluster.start_node(host, OPTIONS, self.cluster.worker(host, 1 << 30, STEP_MS, 0))
        return host

    def show_status(self):
        """The status page in sentences."""
        job = self.cluster.wait_for("job at /status", self.cluster.job)
        restarts = job["restarts"]
        print(f"   job {job['run_id']}: {job['state']}, round {job['round']}, {job['world_size']} ranks, "
              f"{restarts['used']} of {restarts['max']} restarts: {job['reason']}")
        if job["round_because"]:
            print(f"     this round, because {job['round_because']}")
        for node in job["nodes"]:
            ranks = node["ranks"]
            place = f"ranks {ranks[0]}-{ranks[1]}" if ranks else "no ranks"
            reason = f": {node['reason']}" if node["reason"] else ""
            heard = f", heard {node['heard_ago_s']:.1f} s ago" if node["heard_ago_s"] >= 1.5 else ""
            print(f"     {node['host']}  {node['state']}, {place}{heard}{reason}")
        sys.stdout.flush()

    def wait_for_steps(self, of_world, bound_s=60):
        """Until a world steps that is as asked: all of its ranks, three times each."""
        def stepping():
            facts = self.cluster.facts()
            world = list(checks.worlds_of(facts).items())[-1] if facts else None
            if not world or not of_world(world):
                return None
            steps = {}
            for fact in world[1]:
                if fact.event == "stepped":
                    steps[fact.rank] = steps.get(fact.rank, 0) + 1
            return world[0] if len(steps) == world[1][0].world_size and min(steps.values()) >= 3 else None
        self.world = self.cluster.wait_for(f"such world after: {self.chapter}", stepping, bound_s)

    def new_world(self, size, hosts):
        before = self.world
        self.wait_for_steps(lambda world: world[0] != before and world[1][0].world_size == size
                            and {fact.host for fact in world[1]} == {f"node-{letter}" for letter in hosts})
        self.wait_for_reason(lambda job: job["state"] == "running")
        self.show_status()

    def wait_for_reason(self, is_reported, bound_s=60):
        def reported():
            job = self.cluster.job()
            return job is not None and is_reported(job)
        self.cluster.wait_for(f"such status after: {self.chapter}", reported, bound_s)

    def same_world_goes_on(self):
        """New steps of the same world."""
        last = self.cluster.facts()[-1].when
        world = self.world
        self.cluster.wait_for(
            f"steps of the same world after: {self.chapter}",
            lambda: any(f.event == "stepped" and f.world == world and f.when > last for f in self.cluster.facts()))
        if list(checks.worlds_of(self.cluster.facts()))[-1] != world:
            raise Wrong(f"another world after: {self.chapter}")

    # ---- the chapters ------------------------------------------------------------------------------------

    def worker_killed(self):
        self.begin("a worker is killed: the job restarts, one restart is spent")
        made.send_signal(self.cluster.hosts["b"].workers()[0], signal.SIGKILL)
        self.new_world(4, "ab")

    def agent_killed(self):
        self.begin("an agent is killed: its keeper kills its workers; the others wait for it to come again")
        host = self.cluster.hosts["b"]
        made.send_signal(host.agent(), signal.SIGKILL)
        if host.node.wait(30) != 1:
            raise Wrong(f"the keeper returned {host.node.returncode}")
        self.wait_for_reason(lambda job: job["state"] == "forming")
        self.show_status()
        self.join("b")
        self.new_world(4, "ab")

    def cut_for_two_seconds(self):
        self.begin("a cable is cut for two seconds: nothing is restarted")
        host = self.cluster.hosts["b"]
        host.cable.pull()
        time.sleep(2)
        self.show_status()
        host.cable.plug_in()
        self.same_world_goes_on()
        self.wait_for_reason(lambda job: all(node["heard_ago_s"] < 1.5 for node in job["nodes"]))
        self.show_status()

    def node_added(self):
        self.begin("a node is added while the job runs: it is taken in")
        self.join("c")
        self.new_world(6, "abc")

    def cut_for_good(self):
        self.begin("a spare comes, and a cable is cut for good: the spare takes the place")
        self.join("d")
        self.wait_for_reason(lambda job: len(job["nodes"]) == 4)
        self.show_status()
        self.cluster.hosts["b"].cable.pull()
        self.new_world(6, "acd")
        host = self.cluster.hosts["b"]
        self.cluster.wait_for("fence on node-b", lambda: not host.workers())
        # It would try to come back until join_timeout.
        host.node.terminate()
        print(f"   the node behind the cut cable has killed its workers; after SIGTERM it returns {host.node.wait(60)}")

    def server_killed(self):
        self.begin("the server is killed and started again: the workers do not notice")
        self.cluster.kill_server()
        self.cluster.wait_for("agents that miss the server", lambda: all(
            "rendezvous.lost" in self.cluster.hosts[letter].log_text() for letter in "acd"))
        self.cluster.start_server()
        self.same_world_goes_on()
        self.wait_for_reason(lambda job: job["state"] == "running" and len(job["nodes"]) == 3)
        self.show_status()

    def end(self):
        self.begin("it ends")
        (self.cluster.saved / "finish").touch()
        for letter in "acd":
            code = self.cluster.hosts[letter].node.wait(60)
            if code != 0:
                raise Wrong(f"node-{letter} returned {code}")
        facts = self.cluster.facts()
        checks.check_one_world_at_a_time(facts)
        checks.check_ranks(facts)
        checks.check_ended(facts)
        length = checks.check_curve(self.cluster.saved)
        checks.check_nothing_left(self.cluster)
        print(f"   {length} steps in {len(checks.worlds_of(facts))} worlds; the curve is that of an undisturbed training; nothing is left")

    def run(self):
        self.begin("two nodes begin")
        self.cluster.start_server()
        for letter in "ab":
            self.join(letter)
        self.wait_for_steps(lambda world: world[1][0].world_size == 4)
        self.show_status()
        self.worker_killed()
        self.cut_for_two_seconds()
        self.agent_killed()
        self.node_added()
        self.cut_for_good()
        self.server_killed()
        self.end()


def main():
    skip_where_impossible("story")
    with made.Cluster(sys.argv[1], "abcd") as cluster:
        try:
            Story(cluster).run()
        except Wrong as wrong:
            print(f"{wrong}\n{cluster.logs()}")
            sys.exit(1)


if __name__ == "__main__":
    main()
