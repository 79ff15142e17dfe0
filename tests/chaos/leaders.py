#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""leaders.py [--list] BUILD FAULTS [SEED [KIND...]]: one job of four hosts whose nodes elect the server. The host that
leads is killed, frozen or cut off, again and again, while the round runs, is being stopped, or is being formed; each time
another host has to lead, and all four have to train again. Prints how long the next leader and the next steps took,
of each kind in each phase. KIND: only faults of these kinds. --list: all four hosts are endpoints, instead of one.

The faults are those of the seed; how the processes interleave is not."""
import argparse
import collections
import random
import re
import shlex
import signal
import statistics
import sys
import time

import checks
import cluster as made
from cluster import PORT, Wrong
from namespace import skip_where_impossible

HOSTS = "abcd"
STEP_MS = 25
# The shortest lease that such a job may have is 12 s.
OPTIONS = ["--nnodes=3:4", "--nproc-per-node=1", "--max-restarts=1000", "--shutdown-timeout=3", "--insecure",
           "--rdzv-conf=join_timeout=300,last_call_timeout=2,keep_alive_interval=4,keep_alive_max_attempt=3"]
KINDS = ["kill", "kill two", "freeze", "cut", "cut what it sends", "cut what it gets"]
PHASES = ["running", "stopping", "forming"]
LED_S = 12  # another host leads 4 s after the loss of a leader; the rest is for a busy machine
BOUND_S = 120  # until all nodes train again: a lease, a fence, the last call, and a busy machine
CHANGED = re.compile(r"^(\S+) .*rendezvous\.leader_changed leader=(\d+\.\d+\.\d+\.\d+):\d+ epoch=(\d+)", re.MULTILINE)
VOTERS = re.compile(r'^(\S+) .*rendezvous\.voters voters="([^"]*)"', re.MULTILINE)


class Fault:
    def __init__(self, chance, kinds):
        self.kind = chance.choice(kinds)
        self.phase = chance.choice(PHASES)
        # Within the lease or past it.
        self.lasts = round(chance.choice([chance.uniform(0.5, 6), chance.uniform(14, 20)]), 2)
        self.delay = round(chance.choice([0, chance.uniform(0, 0.02), chance.uniform(0, 0.4)]), 3)

    def __str__(self):
        return f"{self.phase} + {self.delay} s: {self.kind}, {self.lasts} s"


class Job:
    def __init__(self, cluster, endpoints):
        self.cluster = cluster
        self.thawed = []
        # The server is placed on the first of these hosts, and a record that was lost begins again there.
        cluster.endpoint = ",".join(f"{cluster.hosts[letter].address}:{PORT}" for letter in endpoints)

    def start(self, host):
        self.cluster.start_node(host, OPTIONS, self.cluster.worker(host, 1 << 30, STEP_MS, 0))

    def changes(self):
        """(epoch, time, address of the leader) of each change that a node has logged; the job's first leader is none.
        A node that was cut off logs a change when the others know it for long."""
        return [(int(epoch), when, address) for host in self.cluster.hosts.values()
                for when, address, epoch in CHANGED.findall(host.log_text())]

    def epoch(self):
        return max(self.changes(), default=(1,))[0]

    def leader(self):
        """The leader of a record that has replaced the one before is known by its voters only, which it has logged."""
        hosts = self.cluster.hosts.values()
        voters = [(when, host.address) for host in hosts for when, _ in VOTERS.findall(host.log_text())]
        newest = max(self.changes(), default=(1, "", ""))
        # Of a leader that was placed, or leads by a new record, only that line is there.
        _, address = max([newest[1:], *voters])
        return next(host for host in hosts if host.address == address)

    def voters(self):
        """The hosts that vote, where three do and a majority is left without any one of them: each is still the process
        that the record has. Else None. Whichever host led last has logged them."""
        logged = [found for host in self.cluster.hosts.values() for found in VOTERS.findall(host.log_text())]
        places = [place.rsplit(":", 1) for place in max(logged)[1].split()] if logged else []
        hosts = [host for address, port in places for host in self.cluster.hosts.values()
                 if host.address == address and int(port) in host.listening()]
        return hosts if len(hosts) == len(places) >= 3 else None

    def trains(self, size, since):
        """The world of at least `size` ranks that all have stepped since then; None: there is none."""
        worlds = checks.worlds_of([fact for fact in self.cluster.facts() if fact.when > since])
        for world, facts in worlds.items():
            if facts[0].world_size >= size and len({f.rank for f in facts if f.event == "stepped"}) == facts[0].world_size:
                return world
        return None

    def start_ended(self, hit):
        """The node of a host that was hit may end by its fence, also after it is healed: it is started again, as a
        scheduler does."""
        for host in hit:
            if host.node.poll() is not None:
                self.start(host)

    def wait_until_whole(self, since, hit=()):
        def is_whole():
            self.start_ended(hit)
            return self.trains(len(HOSTS), since)
        self.cluster.wait_for("training on four hosts", is_whole, BOUND_S)

    # ---- faults -----------------------------------------------------------------------------------------

    def bring_about(self, fault, leader, voters):
        """The phase of the fault; returns the hosts whose nodes have ended for it."""
        others = [host for host in self.cluster.hosts.values() if host is not leader]
        if fault.phase == "stopping":
            began = made.now_ns()
            (self.cluster.saved / "stay").touch()
            made.send_signal(others[0].workers()[0], signal.SIGKILL)
            self.cluster.wait_for("worker that is being stopped", lambda: any(
                fact.event == "stopping" and fact.when > began for fact in self.cluster.facts()))
        if fault.phase == "forming":
            # Three are enough, but the fourth one is waited for.
            leaves = next(host for host in others if host not in voters)
            leaves.node.terminate()
            leaves.node.wait()
            return [leaves]
        return []

    def hit_by(self, fault, leader, voters):
        """Without two of three voters the record is lost, and another one begins at the endpoint only, which is a's."""
        if fault.kind != "kill two":
            return [leader]
        at_endpoint = self.cluster.hosts["a"]
        others = [host for host in voters if host is not leader and at_endpoint in (host, leader)]
        return [leader, *others[:1]]

    def inject(self, fault, hit):
        """Returns what ends it."""
        leader = hit[0]
        match fault.kind:
            case "kill" | "kill two":
                for host in hit:
                    host.lose_power()
                for host in hit:
                    host.node.wait()
                return lambda: [self.start(host) for host in hit]
            case "freeze":
                pids = leader.freeze()
                return lambda: self.thawed.append((leader.name, *made.wake(pids)))
            case "cut":
                leader.cable.pull()
                return leader.cable.plug_in
            case _:
                ways = ["outgoing" if fault.kind == "cut what it sends" else "incoming"]
                leader.cable.lose(ways, 100)
                return lambda: leader.cable.lose_nothing(ways)

    def survive(self, fault):
        """(the hosts that were hit, seconds until another host led or None, seconds until the next steps)"""
        leader = self.leader()
        voters = self.cluster.wait_for("record with three voters", self.voters)
        ended = self.bring_about(fault, leader, voters)
        time.sleep(fault.delay)  # its moment in the phase, by the plan
        before = self.epoch()
        hit = self.hit_by(fault, leader, voters)
        heal = self.inject(fault, hit)
        at = made.now_ns()
        (self.cluster.saved / "stay").unlink(missing_ok=True)
        for host in ended:
            self.start(host)
        heal_at = at + int(fault.lasts * 1e9)
        led = stepped = None

        def is_over():
            nonlocal heal, led, stepped
            now = made.now_ns()
            if heal and now >= heal_at:
                heal()
                heal = None
            if not heal:
                self.start_ended(hit)
            if led is None and self.epoch() > before:
                led = (now - at) / 1e9
            if led is None and len(hit) == 1 and fault.lasts > LED_S and now > at + LED_S * 1e9:
                raise Wrong(f"no other host leads after {LED_S} s")
            if not stepped and self.trains(3, at + 50_000_000):
                stepped = (now - at) / 1e9
            for host in self.cluster.hosts.values():
                if host.node.poll() is not None and host not in hit:
                    raise Wrong(f"{host.name} returned {host.node.returncode}")
            return stepped and not heal

        self.cluster.wait_for("steps after the fault", is_over, BOUND_S)
        self.wait_until_whole(made.now_ns(), hit)
        return " and ".join(host.name for host in hit), led, stepped

    def finish(self):
        (self.cluster.saved / "finish").touch()
        for host in self.cluster.hosts.values():
            self.cluster.wait_for(f"end of {host.name}", lambda host=host: host.node.poll() is not None)
        codes = {host.name: host.node.returncode for host in self.cluster.hosts.values()}
        if set(codes.values()) != {0}:
            raise Wrong(f"exit codes {codes}")
        facts = self.cluster.facts()
        checks.check_one_world_at_a_time(facts, self.thawed)
        checks.check_ranks(facts)
        checks.check_ended(facts)
        checks.check_curve(self.cluster.saved)
        for host in self.cluster.hosts.values():
            checks.remove_error_files(host)
        checks.check_nothing_left(self.cluster)


def summary(name, seconds):
    if not seconds:
        return f"{name}: none"
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"{name}: median {statistics.median(ordered):.2f} s, p99 {p99:.2f} s of {len(ordered)}"


def print_times(took):
    everything = [times for of_one in took.values() for times in of_one]
    for what, times in [*((", ".join(key), took[key]) for key in sorted(took)), ("all", everything)]:
        print(f"{what}: {summary('next leader', [led for led, _ in times if led])}; "
              f"{summary('next steps', [stepped for _, stepped in times])}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("build")
    parser.add_argument("faults", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=random.randrange(1 << 32))
    parser.add_argument("kinds", metavar="KIND", nargs="*", default=KINDS, help=", ".join(KINDS))
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - set(KINDS):
        parser.error(f"no kind of fault: {', '.join(sorted(unknown))}; there are: {', '.join(KINDS)}")
    return asked


def main():
    skip_where_impossible("leaders")
    asked = arguments()
    chance = random.Random(asked.seed)
    print(f"seed {asked.seed}", flush=True)
    took = collections.defaultdict(list)  # (kind, phase) -> (seconds until another host led or None, until the next steps)
    with made.Cluster(asked.build, HOSTS) as cluster:
        job = Job(cluster, HOSTS if asked.list else HOSTS[0])
        fault = None
        try:
            began = made.now_ns()
            for host in cluster.hosts.values():
                job.start(host)
            job.wait_until_whole(began)
            for number in range(asked.faults):
                fault = Fault(chance, asked.kinds)
                hit, led, stepped = job.survive(fault)
                print(f"{number:4} {hit} {fault}: led after {led and round(led, 2)} s, "
                      f"steps after {stepped:.2f} s", flush=True)
                took[fault.kind, fault.phase].append((led, stepped))
            fault = None
            job.finish()
        except Wrong as wrong:
            print(f"\n{fault or 'at the end'}: {wrong}\n{cluster.logs()}\n"
                  f"again: tests/chaos/leaders.py {'--list ' * asked.list}{asked.build} {asked.faults} {asked.seed} "
                  f"{shlex.join(asked.kinds)}")
            sys.exit(1)
    print_times(took)
    print(f"{asked.faults} faults, nothing wrong")


if __name__ == "__main__":
    main()
