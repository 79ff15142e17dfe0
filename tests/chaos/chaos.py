#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chaos.py BUILD SECONDS [SEED]: lives of a job on three hosts; in each, faults hit agents, keepers, workers, cables
and the server at random moments of a chosen phase. Afterwards the job has finished with the right result, or failed with
the right root cause, within its bound; never did two worlds act at once; nothing is left on any host.

A life is its seed: `chaos.py BUILD 0 SEED` lives that one again. Which faults hit which host, when and for how long is the same
then; how the processes interleave is not."""
import json
import random
import signal
import sys
import time

import checks
import cluster as made
from cluster import Wrong
from namespace import skip_where_impossible

HOSTS = "abc"
BOUND_S = 150  # for a whole life on a slow machine; the longest wait inside is the 60 s of join_timeout
STEP_MS = 25
# A silent node is lost after 6 s (two nodes) or 5 s; it fences itself after 4 s or so.
TIMES = "join_timeout=60,last_call_timeout=2,keep_alive_interval=2,keep_alive_max_attempt=3"

PHASES = ["joining", "assigned", "spawning", "running", "stopping", "finishing"]
# what: does it hit one host, how long it may last at most (None: it does not end)
FAULTS = {
    "kill worker": (True, None),
    "kill agent": (True, None),
    "kill keeper": (True, None),
    "stop worker": (True, 4),
    "stop agent": (True, 8),
    "stop keeper": (True, 3),
    "freeze host": (True, 9),
    "pull cable": (True, 9),
    "cut control path": (True, 9),
    "cut what it sends": (True, 9),
    "cut what it gets": (True, 9),
    "lossy cable": (True, 9),
    "pull server's cable": (False, 6),
    "kill server": (False, 3),
    "stop server": (False, 4),
}
# No failure of the job: a scheduler starts such a node again. Every other code would be a verdict on the job.
LIFE_GOES_ON = {0, 1, -signal.SIGKILL, 128 + signal.SIGKILL}


class Fault:
    def __init__(self, chance, phase):
        self.phase = phase
        self.what = chance.choice(list(FAULTS))
        is_on_host, longest = FAULTS[self.what]
        self.host = chance.choice(HOSTS) if is_on_host else None
        self.lasts = round(chance.uniform(0.05, longest), 3) if longest else None
        # Just after the phase began, or well into it.
        self.delay = round(chance.choice([chance.uniform(0, 0.02), chance.uniform(0, 0.4)]), 3)
        self.step = chance.randrange(1, 30)
        self.percent = chance.randrange(5, 31)  # of the frames on a lossy cable

    def __str__(self):
        where = f" on node-{self.host}" if self.host else ""
        lasts = f", for {self.lasts} s" if self.lasts else ""
        at = f"step {self.step}" if self.phase == "running" else self.phase
        percent = f" ({self.percent} %)" if self.what == "lossy cable" else ""
        return f"{at} + {self.delay} s: {self.what}{percent}{where}{lasts}"


class Plan:
    """All that chance decides about one life."""

    def __init__(self, seed):
        chance = random.Random(seed)
        self.seed = seed
        self.workers = chance.choice([1, 2])
        self.steps = chance.randrange(40, 80)
        self.stop_ms = chance.choice([0, 150])
        self.is_verdict = chance.random() < 0.15
        if self.is_verdict:
            self.faults = [Fault(chance, "running")]
            self.faults[0].what, self.faults[0].lasts = "kill worker", None
            self.faults[0].host = self.faults[0].host or "a"
        else:
            phases = sorted(chance.choices(PHASES, k=chance.choice([1, 1, 2, 3])), key=PHASES.index)
            self.faults = [Fault(chance, phase) for phase in phases]
        # One host may be far away.
        self.delays = {chance.choice(HOSTS): round(chance.uniform(0.001, 0.005), 4)} if chance.random() < 0.3 else {}

    def __str__(self):
        ends = "a worker's death is the end" if self.is_verdict else "it has to succeed"
        far = "".join(f"node-{letter} is {delay_s * 1000:g} ms away; " for letter, delay_s in self.delays.items())
        return f"{len(HOSTS)} nodes x {self.workers}, {self.steps} steps, {ends}; {far}" + "; ".join(map(str, self.faults))


class Life:
    def __init__(self, plan, cluster):
        self.plan = plan
        self.cluster = cluster
        self.undo = []  # (when, host, call)
        self.thawed = []
        self.started_again = {}  # host -> when
        self.killed_worker = None
        self.cut_short = set()  # hosts whose agent or keeper did not end by itself
        self.has_succeeded = False
        self.missed = 0  # faults without a target: no worker yet, or no longer
        self.stay = cluster.saved / "stay"
        self.finish = cluster.saved / "finish"
        self.inject_at = None
        self.provoked = None  # (world, when): one of its workers was killed, so that it is stopped
        self.logged = {}

    def start_node(self, host):
        options = ["--nnodes=2:3" if not self.plan.is_verdict else "--nnodes=3",
                   f"--nproc-per-node={self.plan.workers}", "--shutdown-timeout=3", f"--rdzv-conf={TIMES}",
                   f"--max-restarts={0 if self.plan.is_verdict else 20}"]
        self.logged[host.name] = len(host.log_text())
        self.cluster.start_node(host, options, self.cluster.worker(host, 1 << 30, STEP_MS, self.plan.stop_ms))

    # ---- phases: facts that can be seen from outside ---------------------------------------------------

    def has_any_logged(self, text):
        return any(text in host.log_text() for host in self.cluster.hosts.values())

    def is_in(self, fault):
        facts = self.cluster.facts()
        match fault.phase:
            case "joining":
                return True
            case "assigned":
                job = self.cluster.job()
                return bool(facts) or (job is not None and job["state"] == "running")
            case "spawning":
                return self.has_any_logged("round.started")
            case "running":
                return any(fact.event == "stepped" and fact.step >= fault.step for fact in facts)
            case "stopping":
                return self.is_being_stopped(facts, fault)
            case "finishing":
                return any(fact.event == "ended" for fact in facts)

    def is_being_stopped(self, facts, fault):
        """A worker of the host of the fault has got SIGTERM, and stays; another host's will do where it has none in that world."""
        if self.provoked is None:
            return False
        world, when = self.provoked
        stopping = {fact.host for fact in facts if fact.event == "stopping" and fact.world == world and fact.when > when}
        members = {fact.host for fact in facts if fact.world == world}
        host = f"node-{fault.host}"
        return host in stopping if host in members else bool(stopping)

    def bring_about(self, fault):
        """What such a phase needs: a round is stopped when a worker fails, and ends when `finish` is there."""
        facts = self.cluster.facts()
        if fault.phase == "stopping" and facts:
            world = max(facts, key=lambda fact: fact.when).world
            if self.provoked is None or self.provoked[0] != world:
                self.provoke(world, [f for f in facts if f.world == world and f.event == "stepped"], fault)
        if fault.phase == "finishing":
            self.stay.touch()
            self.let_finish(facts)

    def provoke(self, world, steps, fault):
        """Kills a worker of a world in which all train, another host's: the only one of the host of the fault could not be stopped."""
        trains = {(fact.host, fact.pid) for fact in steps}
        if not steps or len(trains) < steps[0].world_size:
            return
        for host, pid in sorted(trains, key=lambda one: (one[0] == f"node-{fault.host}", one)):
            if self.is_as_it_was(self.cluster.hosts[host[-1]]):
                self.stay.touch()
                self.provoked = (world, made.now_ns())
                made.send_signal(pid, signal.SIGKILL)
                return

    def let_finish(self, facts):
        if any(fact.event == "stepped" and fact.step >= self.plan.steps for fact in facts):
            self.finish.touch()

    def is_as_it_was(self, host):
        return not any(affected == host for _, affected, _ in self.undo)

    # ---- faults ------------------------------------------------------------------------------------------

    def inject(self, fault):
        host = self.cluster.hosts[fault.host] if fault.host else None
        until = time.monotonic() + fault.lasts if fault.lasts else None
        match fault.what:
            case "kill worker":
                targets = host.workers()[:1]
                self.killed_worker = (host.name, targets[0]) if targets else None
                self.kill(targets)
            case "kill agent":
                self.cut_short.add(host.name)
                self.kill([host.agent()])
            case "kill keeper":
                self.cut_short.add(host.name)
                self.kill([host.keeper()])
            case "stop worker":
                self.stop(host.workers()[:1], host, until)
            case "stop agent":
                self.cut_short.add(host.name)
                self.stop([host.agent()], host, until)
            case "stop keeper":
                self.stop([host.keeper()], host, until)
            case "freeze host":
                self.cut_short.add(host.name)
                self.stop(host.freeze(), host, until, frozen=True)
            case "pull cable":
                host.cable.pull()
                self.undo.append((until, host, host.cable.plug_in))
            case "cut control path":
                self.cluster.cut_control_path(host)
                self.undo.append((until, host, lambda: self.cluster.heal_control_path(host)))
            case "cut what it sends":
                self.lose(host, ["outgoing"], 100, until)
            case "cut what it gets":
                self.lose(host, ["incoming"], 100, until)
            case "lossy cable":
                self.lose(host, ["outgoing", "incoming"], fault.percent, until)
            case "pull server's cable":
                self.cluster.server_host.cable.pull()
                self.undo.append((until, None, self.cluster.server_host.cable.plug_in))
            case "kill server":
                self.cluster.kill_server()
                self.undo.append((until, None, self.cluster.start_server))
            case "stop server":
                self.stop([self.cluster.server.pid], None, until)

    def lose(self, host, directions, percent, until):
        host.cable.lose(directions, percent)
        self.undo.append((until, host, lambda: host.cable.lose_nothing(directions)))

    def kill(self, pids):
        self.missed += not any([pid and made.send_signal(pid, signal.SIGKILL) for pid in pids])

    def stop(self, pids, host, until, frozen=False):
        pids = [pid for pid in pids if pid]
        self.missed += not pids
        for pid in pids:
            made.send_signal(pid, signal.SIGSTOP)

        def go_on():
            past_the_fence = made.wake(pids)
            if frozen:
                self.thawed.append((host.name, *past_the_fence))
        self.undo.append((until, host, go_on))

    def make_good(self, everything=False):
        """What has lasted long enough ends."""
        due = [one for one in self.undo if everything or one[0] <= time.monotonic()]
        self.undo = [one for one in self.undo if one not in due]
        for _, _, call in due:
            call()

    # ---- a life --------------------------------------------------------------------------------------------

    def keep_hosts_populated(self):
        """As a scheduler does: a node that ended comes again, unless the job is over."""
        for host in self.cluster.hosts.values():
            code = host.node.poll()
            if code is None:
                continue
            if code == 0 or self.plan.is_verdict:
                self.has_succeeded = True
            elif code not in LIFE_GOES_ON:
                raise Wrong(f"{host.name} returned {code}, a verdict on a job that had to go on")
            elif not self.has_succeeded:
                again_at = self.started_again.setdefault(host.name, time.monotonic() + 0.3)
                if time.monotonic() >= again_at:
                    del self.started_again[host.name]
                    self.start_node(host)

    def end_latecomers(self):
        """Nodes that came when the job was over, or were lost and came back, began another one of the same name, which
        no other node will join."""
        job = self.cluster.job()
        is_another = job is not None and job["state"] == "forming"
        members = [node["host"] for node in job["nodes"]] if is_another else []
        for host in self.cluster.hosts.values():
            never_began = "round.started" not in host.log_text()[self.logged[host.name]:]
            if host.node.poll() is None and (never_began or host.name in members):
                host.node.terminate()

    def inject_when_it_is_time(self, fault, others):
        self.bring_about(fault)
        if self.inject_at is None and self.is_in(fault):
            self.inject_at = time.monotonic() + fault.delay
        if self.inject_at is None or time.monotonic() < self.inject_at:
            return False
        self.inject(fault)
        self.inject_at = None
        # Or the second of two faults while it finishes would come too late.
        if fault.phase != "finishing" or not others or others[0].phase != "finishing":
            self.stay.unlink(missing_ok=True)
        return True

    def live(self):
        began = time.monotonic()
        self.cluster.start_server()
        for host in self.cluster.hosts.values():
            self.start_node(host)
        faults = list(self.plan.faults)
        while not self.has_succeeded:
            self.make_good()
            self.keep_hosts_populated()
            # One thing at a time on one host: an agent stopped and its keeper killed is more than ddprun promises.
            if faults and self.is_as_it_was(self.cluster.hosts.get(faults[0].host)):
                if self.inject_when_it_is_time(faults[0], faults[1:]):
                    faults.pop(0)
            elif not faults:
                self.let_finish(self.cluster.facts())
            if time.monotonic() > began + BOUND_S:
                raise Wrong(f"not over after {BOUND_S} s")
            time.sleep(0.005)
        if faults:
            raise Wrong("it was over before " + "; ".join(map(str, faults)))
        over = time.monotonic()
        while any(host.node.poll() is None for host in self.cluster.hosts.values()):
            self.make_good(everything=time.monotonic() > over + 1)
            if time.monotonic() > over + 3:
                self.end_latecomers()
            if time.monotonic() > over + 60:
                raise Wrong("nodes that do not end: " + ", ".join(
                    host.name for host in self.cluster.hosts.values() if host.node.poll() is None))
            time.sleep(0.1)
        self.make_good(everything=True)
        return time.monotonic() - began

    def check(self):
        facts = self.cluster.facts()
        checks.check_one_world_at_a_time(facts, self.thawed)
        checks.check_ranks(facts)
        codes = {host.name: host.node.returncode for host in self.cluster.hosts.values()}
        if self.plan.is_verdict:
            self.check_verdict(codes)
        else:
            checks.check_ended(facts)
            checks.check_curve(self.cluster.saved, max(fact.step for fact in facts if fact.event == "ended"))
            unexpected = {name: code for name, code in codes.items() if code not in {*LIFE_GOES_ON, 128 + signal.SIGTERM}}
            if unexpected:
                raise Wrong(f"exit codes {unexpected} after a success")
        self.check_nothing_left()

    def check_verdict(self, codes):
        """The fault comes while all hosts train, for no rank may end before it: it kills, and that ends the job."""
        checks.check_curve(self.cluster.saved)
        if self.killed_worker is None or self.missed:
            raise Wrong(f"no worker to kill on a host that trained; exit codes {codes}")
        if set(codes.values()) != {128 + signal.SIGKILL}:
            raise Wrong(f"exit codes {codes} after a worker was killed")
        for host in self.cluster.hosts.values():
            cause = json.loads((host.folder / "report").read_text())["root_cause"]
            reported = (cause.get("host"), cause.get("worker", {}).get("pid"))
            if reported != self.killed_worker:
                raise Wrong(f"{host.name} reports {reported}, killed was {self.killed_worker}")

    def check_nothing_left(self):
        for name in self.cut_short:
            checks.remove_error_files(self.cluster.hosts[name[-1]])
        checks.check_nothing_left(self.cluster)


def live_once(build, seed):
    """(the life when it is over, seconds it took); raises Wrong with its story."""
    plan = Plan(seed)
    with made.Cluster(build, HOSTS, plan.delays) as cluster:
        life = Life(plan, cluster)
        try:
            seconds = life.live()
            life.check()
        except Wrong as wrong:
            raise Wrong(f"life {seed}: {plan}\n{wrong}\n{json.dumps(cluster.job(), indent=1)}\n{cluster.logs()}") from None
    return life, seconds


def main():
    skip_where_impossible("chaos")
    build, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    until = time.monotonic() + seconds
    lives = faults = 0
    while True:
        print(f"seed {seed}", end=" ", flush=True)
        try:
            life, took = live_once(build, seed)
        except Wrong as wrong:
            print(f"\n{wrong}\nagain: tests/chaos/chaos.py {build} 0 {seed}")
            sys.exit(1)
        lives += 1
        faults += len(life.plan.faults) - life.missed
        missed = f" ({life.missed} missed)" if life.missed else ""
        print(f"{took:5.1f} s: {life.plan}{missed}", flush=True)
        if time.monotonic() >= until:
            break
        seed += 1
    print(f"{lives} lives, {faults} faults, nothing wrong")


if __name__ == "__main__":
    main()
