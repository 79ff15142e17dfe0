#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""agreed_save.py BUILD SOURCE COUNT [SEED]: jobs of four ranks on one, two or four nodes that get one notice each (SIGUSR1, or
SIGTERM with a deadline) at a random moment: while workers start, before the first step, in a short or a long step, while rank 0
evaluates. All ranks have to save the same step and every ddprun to exit with 86. Ranks run in step, as with a collective, or
free; they ask in each step or in each third one, and go on after the save or exit. 200 take some six minutes on two cores."""
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
HANG = 90  # seconds: only a hang takes that long
RANKS = 4
SAVED = 86


class Stepper:
    """Releases all ranks when the last one has arrived."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(RANKS)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        try:
            ranks = [self.listener.accept()[0] for _ in range(RANKS)]
            while all(rank.recv(1) for rank in ranks):
                for rank in ranks:
                    rank.sendall(b".")
        except OSError:
            pass
        else:
            for rank in ranks:
                rank.close()

    def close(self):
        self.listener.close()


class Job:
    def __init__(self, build, source, folder, seed, nodes, in_step, options, more, nnodes=None):
        self.folder = folder
        nnodes = nnodes or nodes
        self.stepper = Stepper(f"{folder}/stepper") if in_step else None
        # No variable of a scheduler that runs this test.
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SLURM_", "PET_", "DDPRUN_", "KUBERNETES_"))}
        environment |= {"PYTHONPATH": str(source / "worker_sdk" / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                        "SEED": str(seed), **more}
        if in_step:
            environment["STEPPER"] = f"{folder}/stepper"
        port = free_port()
        self.errors = [open(f"{folder}/errors.{node}", "w+b") for node in range(nodes)]
        self.processes = [
            subprocess.Popen(
                [str(build / "bin" / "ddprun"), f"--nnodes={nnodes}", f"--nproc-per-node={RANKS // nodes}",
                 f"--rdzv-conf=is_host={int(node == 0)}", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=agreed", f"--node-rank={node}", "--shutdown-timeout=20",
                 "--log-level=info", *options, str(HERE / "stand_in.py"), folder],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors[node])
            for node in range(nodes)]

    def has(self, what, ranks):
        return all(os.path.exists(f"{self.folder}/{what}.{rank}") for rank in ranks)

    def wait_until(self, what, ranks):
        until = time.monotonic() + HANG
        while not self.has(what, ranks):
            if time.monotonic() > until or any(process.poll() is not None for process in self.processes):
                raise AssertionError(f"no {what}\n{self.words()}")
            time.sleep(0.002)

    def signal(self, node, number):
        self.processes[node].send_signal(number)

    def end(self):
        codes = [process.wait(timeout=HANG) for process in self.processes]
        return codes

    def saved(self):
        steps = []
        for rank in range(RANKS):
            try:
                with open(f"{self.folder}/saved.{rank}", encoding="ascii") as file:
                    steps.append([int(line) for line in file])
            except FileNotFoundError:
                steps.append([])
        return steps

    def words(self):
        text = ""
        for node, errors in enumerate(self.errors):
            errors.seek(0)
            text += f"--- node {node}\n" + errors.read().decode(errors="replace")
        return text

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        if self.stepper:
            self.stepper.close()
        for errors in self.errors:
            errors.close()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def one_notice(build, source, seed):
    """Returns the kind of job and moment, and what was wrong; empty: nothing."""
    choice = random.Random(seed)
    nodes = choice.choice([1, 2, 4])
    by_signal = choice.random() < 0.5
    in_step = choice.random() < 0.7
    moment = choice.choice(["start", "before the first step", "steps", "steps", "steps"])
    more = {"LONGEST_STEP": choice.choice(["0.001", "0.01", "0.05"]), "STRIDE": choice.choice(["1", "1", "3"]),
            "SLOW_START": choice.choice(["0.05", "0.4"])}
    if choice.random() < 0.3:
        more["BREAKS"] = "1"
    node = choice.randrange(nodes)
    what = (f"{nodes} nodes, {'SIGUSR1' if by_signal else 'SIGTERM'} to node {node}, {moment}, "
            f"{'in step' if in_step else 'free'}, {more}")
    with tempfile.TemporaryDirectory() as folder:
        options = ["--deadline=40s"] + (["--preempt-signal=USR1"] if by_signal else [])
        job = Job(build, source, folder, seed, nodes, in_step, options, more)
        try:
            own = range(node * RANKS // nodes, (node + 1) * RANKS // nodes)
            # The earliest moment at which a node has something to save.
            job.wait_until("started", own)
            if moment == "before the first step":
                time.sleep(choice.uniform(0, 0.5))
            elif moment == "steps":
                job.wait_until("stepped", own)
                time.sleep(choice.uniform(0, 1.0))
            job.signal(node, signal.SIGUSR1 if by_signal else signal.SIGTERM)
            codes = job.end()
            steps = job.saved()
            wrong = ""
            # Only the last save counts: when a rank did not wait for the agreement, the others save
            # once more.
            last = {saves[-1] if saves else None for saves in steps}
            if len(last) != 1 or None in last:
                wrong = f"saved {steps}, exit codes {codes}"
            elif codes != [SAVED] * nodes:
                wrong = f"exit codes {codes}, saved {steps}"
            return what, wrong + ("\n" + job.words() if wrong else "")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return what, f"{error}\n{job.words()}"
        finally:
            job.close()


def main():
    build, source, count = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    same = 0
    for number in range(count):
        what, wrong = one_notice(build, source, seed + number)
        same += not wrong
        if wrong:
            print(f"seed {seed + number}: {what}: {wrong}", flush=True)
        elif (number + 1) % 20 == 0:
            print(f"{same} of {number + 1} saved the same step", flush=True)
    print(f"notices: all ranks saved the same step, exit code 86: {same} of {count} (seed {seed})")
    return 0 if same == count else 1


if __name__ == "__main__":
    sys.exit(main())
