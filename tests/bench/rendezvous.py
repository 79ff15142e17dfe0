# SPDX-License-Identifier: Apache-2.0
"""Thousands of agents without workers against one ddprun-rendezvous, and torchrun's own rendezvous.

The agents speak the real control protocol over the loopback, a thousand or more in each process of
light_agents, so a large part of the time of every row is theirs. torchrun's rendezvous is measured
at the sizes it can do on one machine: one thread of one process per node, one TCPStore.
"""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import bench

SIZES = [250, 1000, 4000, 16000]
AGENTS_PER_PROCESS = 4000
IDLE_SECONDS = 5
RESUMED = 4000
TORCH_SIZES = [4, 16, 64]
REPETITIONS = 3


class Daemon:
    def __init__(self, port="0"):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [bench.BIN / "ddprun-rendezvous", "--host", "127.0.0.1", "--port", port, "--log-level", "info"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until = time.monotonic() + bench.BOUND_S
        while time.monotonic() < until:
            found = re.search(r"port=(\d+)", pathlib.Path(f"/proc/self/fd/{self.log.fileno()}").read_text())
            if found:
                self.port = found.group(1)
                return
            time.sleep(0.01)
        raise bench.Failed("ddprun-rendezvous printed no port")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def memory_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return 0

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(bench.BOUND_S)

    def close(self):
        self.end(signal.SIGTERM)


class Agents:
    """The processes of one job; a command goes to all of them, an answer comes from each."""

    def __init__(self, port, count):
        self.processes = []
        for first in range(0, count, AGENTS_PER_PROCESS):
            here = min(AGENTS_PER_PROCESS, count - first)
            self.processes.append(subprocess.Popen(
                [bench.BIN / "light_agents", port, str(here), str(first), str(count)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def send(self, word, processes=None):
        for process in processes or self.processes:
            process.stdin.write(word + "\n")
            process.stdin.flush()

    def hear(self, processes=None):
        answers = []
        for process in processes or self.processes:
            words = process.stdout.readline().split()
            if not words:
                raise bench.Failed("light_agents ended early")
            answers.append([int(word) for word in words[1:]])
        return answers

    def ask(self, word, processes=None):
        self.send(word, processes)
        return self.hear(processes)

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(bench.BOUND_S)


def measure(count, is_idle_measured):
    """One life of one job: {name: value}; seconds, bytes, and CPU seconds."""
    daemon = Daemon()
    empty = daemon.memory_bytes()
    agents = Agents(daemon.port, count)
    cpu = daemon.cpu_seconds()
    joined = agents.ask("join")
    seen = {
        "whole join": (max(j[2] for j in joined) - min(j[0] for j in joined)) / 1e9,
        "last join to last assignment": (max(j[2] for j in joined) - max(j[1] for j in joined)) / 1e9,
        "server CPU of the join": daemon.cpu_seconds() - cpu,
        "server memory": daemon.memory_bytes() - empty,
    }
    agents.ask("forget")
    first = agents.processes[:1]
    failed = agents.ask("fail", first)[0][0]
    stopped = agents.ask("await_stop")
    seen["failure to last stop"] = (max(s[0] for s in stopped) - failed) / 1e9
    seen["failure to last new assignment"] = (max(s[1] for s in stopped) - failed) / 1e9
    if is_idle_measured:
        cpu, begin = daemon.cpu_seconds(), time.monotonic()
        idle = agents.ask(f"idle {IDLE_SECONDS}")
        seconds = time.monotonic() - begin
        seen["idle bytes"] = sum(sum(answer) for answer in idle) / seconds
        seen["idle CPU"] = (daemon.cpu_seconds() - cpu) / seconds
    agents.close()
    daemon.close()
    return seen


def seconds_to_resume(count):
    """The server is killed and started again: from the first connection to the last assignment, with which each agent
    is taken back into its round. The job then goes on: a failure begins the next round."""
    daemon = Daemon()
    agents = Agents(daemon.port, count)
    agents.ask("join")
    agents.ask("leave")
    daemon.end(signal.SIGKILL)
    daemon = Daemon(daemon.port)
    resumed = agents.ask("resume")
    agents.ask("forget")
    agents.ask("fail", agents.processes[:1])
    agents.ask("await_stop")
    agents.close()
    daemon.close()
    return (max(r[1] for r in resumed) - min(r[0] for r in resumed)) / 1e9


def torch_seconds(count):
    done = bench.run([bench.torch_python(), bench.ROOT / "tests" / "bench" / "torch_rendezvous.py", str(count)])
    return float(done.stdout.decode().split()[-1])


def measure_all(rows):
    def add(case, unit, values, target="", met=None):
        rows.append(bench.row(case, unit, values, None, target, (lambda ours, _: ours <= met) if met else None))

    for count in SIZES:
        bench.progress(f"rendezvous: {count} agents")
        # Idle seconds are averages of thousands of heartbeats already: once is enough.
        runs = [measure(count, is_idle_measured=turn == 0) for turn in range(REPETITIONS)]

        def of(name, scale=1.0):
            return [run[name] * scale for run in runs if name in run]

        case = f"{count} agents"
        is_4k, is_16k = count == 4000, count == 16000
        add(f"{case}: last join to last assignment", "s", of("last join to last assignment"), "0.3 s" if is_4k else "", 0.3 if is_4k else None)
        limit = 1.0 if is_4k else 5.0 if is_16k else None
        add(f"{case}: whole join", "s", of("whole join"), f"{limit:g} s" if limit else "", limit)
        add(f"{case}: whole join, per agent", "us", of("whole join", 1e6 / count))
        add(f"{case}: server CPU of the join, per agent", "us", of("server CPU of the join", 1e6 / count))
        add(f"{case}: server memory, per agent", "bytes", of("server memory", 1 / count))
        add(f"{case}: failure to last stop", "s", of("failure to last stop"), "0.1 s" if is_4k else "", 0.1 if is_4k else None)
        add(f"{case}: failure to last new assignment", "s", of("failure to last new assignment"), "1 s" if is_4k else "", 1.0 if is_4k else None)
        add(f"{case}: idle, per agent", "bytes/s", of("idle bytes", 1 / count))
        add(f"{case}: idle server CPU, per agent", "us/s", of("idle CPU", 1e6 / count))
    bench.progress(f"rendezvous: {RESUMED} agents at a server that was killed and started again")
    add(f"{RESUMED} agents: all resumed at a server started again", "s", [seconds_to_resume(RESUMED) for _ in range(REPETITIONS)], "1 s", 1.0)
    for count in TORCH_SIZES:
        bench.progress(f"rendezvous: {count} nodes beside torchrun's")
        peer = bench.torch_peer("torchrun", bench.BOUND_S)
        ours = bench.take_turns(
            REPETITIONS, lambda: measure(count, is_idle_measured=False)["whole join"], (peer, lambda: torch_seconds(count), REPETITIONS))
        rows.append(bench.row(f"{count} nodes: whole join", "s", ours, peer))


if __name__ == "__main__":
    sys.exit(bench.main("rendezvous", measure_all))
