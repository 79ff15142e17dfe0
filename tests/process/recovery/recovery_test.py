#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""recovery_test.py BUILD NODES: four ranks of a C++ trainer on one or two nodes, or with --torch of one
with PyTorch; one after the other is killed by SIGKILL, at a random moment each time. The others keep their
processes, and at the end the parameters are those of an undisturbed run, bit for bit. Prints how long it
took from a death to the next step of all ranks."""
import argparse
import os
import pathlib
import queue
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORLD = 4
BOUND_S = 60  # for one round to follow another, on a busy machine
BEGINS = re.compile(r"begins rank=(\d+) pid=(\d+) round=(\d+) step=(\d+) at=([\d.]+)")
STEPS = re.compile(r"steps rank=(\d+) round=(\d+) at=([\d.]+)")
ENDS = re.compile(r"ends rank=(\d+) hash=([0-9a-f]+)")

SOURCES = pathlib.Path(__file__).resolve().parents[3]
# By what a trainer sleeps in a step, so that the last kill comes before the end, and little more.
STEPS_OF_A_KILL = {"C++": 200, "PyTorch": 100}


class Trainer:
    """How the job is started."""

    def __init__(self, arguments):
        self.build, self.nodes, self.is_warm = arguments.build, arguments.nodes, arguments.warm
        self.kind = "PyTorch" if arguments.torch else "C++"
        if self.kind == "PyTorch":
            self.words = [f"--python={os.environ['DDPRUN_TORCH_PYTHON']}", f"--warm={int(self.is_warm)}",
                          str(SOURCES / "tests/interop/recovery/trainer.py")]
        else:
            self.words = ["--no-python", f"{self.build}/stubs/recovering_trainer"]


class Wrong(Exception):
    pass


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Job:
    def __init__(self, trainer, steps, logs=None):
        nodes = trainer.nodes
        # With a step of 50 ms on a busy machine.
        self.bound = BOUND_S + 120 + steps * 0.05
        self.lines = queue.Queue()
        self.seen = []
        self.errors = []
        self.processes = []
        place = ["--standalone"] if nodes == 1 else [f"--nnodes={nodes}", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
        command = [f"{trainer.build}/bin/ddprun", *place, f"--nproc-per-node={WORLD // nodes}", "--max-restarts=100000",
                   "--shutdown-timeout=5", *(["--tee=1", f"--log-dir={logs}"] if logs else []), *(["--log-level=info"] if trainer.is_warm else []), *trainer.words, str(steps)]
        for node in range(nodes):
            environment = {name: value for name, value in os.environ.items() if not name.startswith("DDPRUN_")}
            # Ranks of two nodes talk as those of two hosts do.
            environment["DDPRUN_HOST_ID"] = f"host{node}"
            environment["PYTHONPATH"] = str(SOURCES / "worker_sdk/python")
            environment["OMP_NUM_THREADS"] = "1"
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=environment, start_new_session=True)
            self.processes.append(process)
            for stream, use in ((process.stdout, self.lines.put), (process.stderr, self.errors.append)):
                threading.Thread(target=self.read, args=(stream, use), daemon=True).start()

    @staticmethod
    def read(stream, use):
        for line in stream:
            use(line.rstrip("\n"))

    def next_line(self, until):
        while time.monotonic() < until:
            try:
                self.seen.append(self.lines.get(timeout=0.5))
                return self.seen[-1]
            except queue.Empty:
                if all(process.poll() is not None for process in self.processes):
                    raise Wrong("the job has ended") from None
        raise Wrong("the job says nothing more")

    def round(self, number):
        """{rank: (pid, step, when)} of a round that has begun, and when the last rank's first step was done."""
        until = time.monotonic() + BOUND_S
        begun, stepped = {}, {}
        while len(stepped) < WORLD:
            line = self.next_line(until)
            if found := BEGINS.search(line):
                if int(found[3]) == number:
                    begun[int(found[1])] = (int(found[2]), int(found[4]), float(found[5]))
            elif found := STEPS.search(line):
                if int(found[2]) == number:
                    stepped[int(found[1])] = float(found[3])
        return begun, max(stepped.values())

    def end(self):
        """The hash of each rank."""
        until = time.monotonic() + self.bound
        hashes = {}
        while len(hashes) < WORLD:
            if found := ENDS.search(self.next_line(until)):
                hashes[int(found[1])] = found[2]
        for process in self.processes:
            if process.wait(timeout=BOUND_S) != 0:
                raise Wrong("exit code " + str(process.returncode))
        return hashes

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()

    def wait_for_parked(self, count):
        """Waits until processes were parked so often, on all nodes together."""
        until = time.monotonic() + BOUND_S + 120
        while sum("workers.parked" in line for line in self.errors) < count:
            if time.monotonic() > until:
                raise Wrong("no process was parked")
            time.sleep(0.05)


def undisturbed(trainer, steps):
    job = Job(trainer, steps)
    try:
        hashes = set(job.end().values())
    finally:
        job.kill()
    if len(hashes) != 1:
        raise Wrong(f"the ranks of an undisturbed run differ: {hashes}")
    return hashes.pop()


def disturbed(trainer, kills, chance, job):
    times = []
    pids, _ = job.round(0)
    for number in range(1, kills + 1):
        if trainer.is_warm:
            job.wait_for_parked(trainer.nodes + number - 1)
        time.sleep(chance.choice([0, chance.uniform(0, 0.005), chance.uniform(0, 0.1)]))
        victim = chance.randrange(WORLD)
        os.kill(pids[victim][0], signal.SIGKILL)
        died_at = time.monotonic()
        begun, stepped_at = job.round(number)
        times.append(stepped_at - died_at)
        for rank in range(WORLD):
            is_same = begun[rank][0] == pids[rank][0]
            if is_same == (rank == victim):
                raise Wrong(f"kill {number}, of rank {victim}: rank {rank} had process {pids[rank][0]}, "
                            f"and has {begun[rank][0]} now")
        if len({step for _, step, _ in begun.values()}) != 1:
            raise Wrong(f"kill {number}: the ranks begin with different steps: {begun}")
        pids = begun
    return times


def check_logs(folder, kills):
    """Each round has files of its own, also for the workers that have gone on from the round before."""
    written = 0
    for path in pathlib.Path(folder).rglob("stdout.log"):
        begun = BEGINS.findall(path.read_text())
        written += len(begun)
        if len(begun) > 1:
            raise Wrong(f"{path} has the output of more than one round: {begun}")
    if written != WORLD * (kills + 1):
        raise Wrong(f"the logs have {written} workers' rounds, of {WORLD * (kills + 1)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("nodes", type=int)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--warm", action="store_true", help="with --torch: kills when a process is parked")
    arguments = parser.parse_args()
    kills = arguments.kills
    if arguments.torch and not os.environ.get("DDPRUN_TORCH_PYTHON"):
        if os.environ.get("DDPRUN_REQUIRE_TORCH") == "1":
            raise SystemExit("PyTorch is required and DDPRUN_TORCH_PYTHON names none")
        print("SKIP recovery with PyTorch: DDPRUN_TORCH_PYTHON names no Python with PyTorch")
        return 0
    print(f"seed {arguments.seed}", flush=True)
    trainer = Trainer(arguments)
    # Warm ones are parked while the job trains.
    steps = STEPS_OF_A_KILL[trainer.kind] * kills * (25 if trainer.is_warm else 1)
    job = None
    logs = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    try:
        expected = undisturbed(trainer, steps)
        job = Job(trainer, steps, logs.name)
        times = disturbed(trainer, kills, random.Random(arguments.seed), job)
        hashes = set(job.end().values())
        if hashes != {expected}:
            raise Wrong(f"the parameters differ from those of an undisturbed run: {hashes}, {expected}")
        check_logs(logs.name, kills)
    except Wrong as wrong:
        print(f"{wrong}\nseed {arguments.seed}; the last lines:",
              *(job.seen[-20:] + job.errors[-20:] if job else []), sep="\n")
        return 1
    finally:
        if job:
            job.kill()
        logs.cleanup()
    ordered = sorted(times)
    print(f"{kills} kills, survivors kept their processes; from the death to the first step of all: median "
          f"{statistics.median(times) * 1000:.1f} ms, 99th {ordered[len(ordered) * 99 // 100] * 1000:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
