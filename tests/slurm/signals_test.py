# SPDX-License-Identifier: Apache-2.0
"""Signals of Debian's Slurm and ddprun: signals_test.py BUILD PROCTRACK [MOMENTS [SEED]]

Whatever decides which processes of a step get a signal (PROCTRACK), each worker gets one; MOMENTS times `scancel -s TERM`
comes at a random moment of a job's life: no new round, no restart, the same exit code on both nodes.
"""
import json
import os
import pathlib
import random
import re
import sys
import time

from cluster import DEADLINE_S, Cluster, enter_namespace, processes, why_no_cgroups, why_not

# Counts what it gets. A save takes longer than any process waits for another one's signal; a second SIGTERM would be
# written before its end.
SAVING_WORKER = """
import os, signal, time
path = os.environ["FOLDER"] + "/worker." + os.environ["RANK"]
file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
is_asked = False
def note(signal_number, frame):
    global is_asked
    os.write(file, signal.Signals(signal_number).name.encode() + b"\\n")
    is_asked = is_asked or signal_number == signal.SIGTERM
for each in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(each, note)
os.write(file, b"begun\\n")
while not is_asked:
    time.sleep(0.02)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    time.sleep(0.02)
os.write(file, b"saved\\n")
"""
# Saves on the first signal while four loader processes go on. Lines of loaders, which inherit the handler, do not count.
LOADING_WORKER = """
import os, signal, time
import torch, torch.utils.data as data
main, is_asked = os.getpid(), False
file = os.open(os.environ["FOLDER"] + "/worker." + os.environ["RANK"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(signal_number, frame):
    global is_asked
    is_asked = True
    if os.getpid() == main:
        os.write(file, signal.Signals(signal_number).name.encode() + b"\\n")
for each in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(each, note)
class Numbers(data.Dataset):
    def __len__(self):
        return 10 ** 7
    def __getitem__(self, index):
        return torch.ones(1) * index
batches = iter(data.DataLoader(Numbers(), batch_size=4, num_workers=4))
next(batches)
os.write(file, b"begun\\n")
while not is_asked:
    next(batches)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    next(batches)
os.write(file, b"saved\\n")
del batches
"""
ROUND_WORKER = 'echo "$DDPRUN_ROUND" >> $FOLDER/round.$RANK; exec sleep 600'
ENDS = re.compile(r"srun: error: \S+ tasks? \S+ (Exited with exit code \d+|Terminated)")


class Signals:
    def __init__(self, cluster, ddprun):
        self.cluster = cluster
        self.ddprun = ddprun
        self.folder = cluster.folder
        self.cluster.environment["FOLDER"] = str(self.folder)
        (self.folder / "worker.py").write_text(SAVING_WORKER)
        (self.folder / "loading.py").write_text(LOADING_WORKER)

    def begin(self, *words):
        for name in ["worker.*", "round.*", "report*"]:
            for old in self.folder.glob(name):
                if old.name != "worker.py":
                    old.unlink()
        return self.cluster.begin("srun", "-N2", "--nodelist=n[1-2]", self.ddprun, "--max-restarts=3",
                                  f"--report-file={self.folder}/report", *words)

    def job(self):
        jobs = self.cluster.run("squeue", "--noheader", "--format=%A", "--states=running").stdout.split()
        assert len(jobs) == 1, jobs
        return jobs[0]

    def begin_saving_job(self):
        step = self.begin("--nproc-per-node=2", "--python", sys.executable, str(self.folder / "worker.py"))
        self.cluster.wait_for(lambda: self.lines() == [["begun"]] * 4, "four workers")
        return step

    def lines(self):
        return [(path.read_text().split() if (path := self.folder / f"worker.{rank}").exists() else [])
                for rank in range(4)]

    def end_of(self, step):
        """What srun says of its two tasks, in words."""
        output, _ = step.communicate(timeout=DEADLINE_S)
        return step.returncode, output

    def check_nothing_is_left(self):
        for node in ["n1", "n2"]:
            self.cluster.wait_for(lambda: not processes("ddprun", node), f"the end of each ddprun on {node}")

    def each_worker_gets_one_sigterm_and_saves(self, *scancel):
        step = self.begin_saving_job()
        self.cluster.run("scancel", *scancel, self.job())
        code, output = self.end_of(step)
        assert self.lines() == [["begun", "SIGTERM", "saved"]] * 4, f"{self.lines()}\n{output}"
        assert code == 143, f"{code}\n{output}"
        assert json.loads((self.folder / "report").read_text())["restarts"]["used"] == 0
        self.check_nothing_is_left()

    def each_worker_gets_one_warning_and_goes_on(self):
        step = self.begin_saving_job()
        self.cluster.run("scancel", "-s", "USR1", self.job())
        self.cluster.wait_for(lambda: self.lines() == [["begun", "SIGUSR1"]] * 4, "a warning of each worker")
        self.cluster.run("scancel", "-s", "TERM", self.job())
        code, output = self.end_of(step)
        assert self.lines() == [["begun", "SIGUSR1", "SIGTERM", "saved"]] * 4, f"{self.lines()}\n{output}"
        assert code == 143, f"{code}\n{output}"

    def a_worker_with_data_loaders_saves(self, python, signal_name, code_expected):
        step = self.begin("--python", python, str(self.folder / "loading.py"))
        self.cluster.wait_for(lambda: self.lines()[:2] == [["begun"]] * 2, "two workers")
        self.cluster.run("scancel", "-s", signal_name, self.job())
        code, output = self.end_of(step)
        assert self.lines()[:2] == [["begun", "SIG" + signal_name, "saved"]] * 2, f"{self.lines()}\n{output}"
        assert code == code_expected, f"{code}\n{output}"

    def sigterm_at_a_moment(self, seconds):
        step = self.begin("--no-python", "sh", "-c", ROUND_WORKER)
        self.cluster.wait_for(lambda: processes("ddprun", "n1") and processes("ddprun", "n2"), "two ddpruns")
        time.sleep(seconds)
        self.cluster.run("scancel", "-s", "TERM", self.job())
        code, output = self.end_of(step)
        rounds = [path.read_text().split() for path in self.folder.glob("round.*")]
        # A worker may end after its file was made and before it was written.
        assert all(each in ([], ["0"]) for each in rounds), f"after {seconds} s: {rounds}\n{output}"
        # A ddprun that has not begun to read signals dies of it, which is the same code to a shell.
        ends = {end.replace("Terminated", "Exited with exit code 143") for end in ENDS.findall(output)}
        assert ends == {"Exited with exit code 143"} and code in (143, 15), f"after {seconds} s: {code} {ends}\n{output}"
        report = self.folder / "report"
        assert not report.exists() or json.loads(report.read_text())["restarts"]["used"] == 0
        self.check_nothing_is_left()


def main():
    build, proctrack = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    moments = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10 ** 9)
    if reason := why_not() or (why_no_cgroups() if proctrack == "cgroup" else ""):
        print(f"SKIP signals of Slurm: {reason}")
        return
    enter_namespace()
    with Cluster(proctrack) as cluster:
        signals = Signals(cluster, str(build / "bin" / "ddprun"))
        signals.each_worker_gets_one_sigterm_and_saves("-s", "TERM")
        signals.each_worker_gets_one_sigterm_and_saves()
        signals.each_worker_gets_one_warning_and_goes_on()
        if python := os.environ.get("DDPRUN_TORCH_PYTHON"):
            # docs/slurm-and-kubernetes.md: a SIGTERM that Slurm sends to a loader itself ends the loader.
            if proctrack == "cgroup":
                signals.a_worker_with_data_loaders_saves(python, "TERM", 143)
            signals.a_worker_with_data_loaders_saves(python, "USR1", 0)
        else:
            assert os.environ.get("DDPRUN_REQUIRE_TORCH") != "1", "no DDPRUN_TORCH_PYTHON"
            print("no PyTorch: nothing is saved with data loaders")
        print(f"{moments} moments, seed {seed}")
        chance = random.Random(seed)
        for _ in range(moments):
            signals.sigterm_at_a_moment(chance.uniform(0, 0.5))


if __name__ == "__main__":
    main()
