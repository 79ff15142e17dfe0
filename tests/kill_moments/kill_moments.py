#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill_moments.py BUILD COUNT [SEED]: a training of three ranks under ddprun, COUNT times over; each time one or two
of its ranks are killed at a random moment, or ddprun itself (its keeper or its agent), and then it is started anew.
After the restart it has to end like the undisturbed one, to the bit (every sample used once per epoch, the loss going
on), and to leave nothing: no process, no shared memory, no socket, no temporary file. 200 take one to two
minutes on two cores."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

RANKS = 3
BOUND_S = 120
MOMENTS_BETWEEN_REPORTS = 20
UNDISTURBED = 3
PATIENCE_S = 60
MARK = "DDPRUN_KILL_MOMENTS"


def carriers(mark):
    """Folders in /proc of the processes whose environment has such a mark, a pattern: they inherited it."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # gone, or of another user
        if any(re.fullmatch(f"{MARK}={mark}".encode(), variable) for variable in environment):
            yield entry


def with_mark(mark):
    """Processes of this run."""
    found = []
    for entry in carriers(mark):
        try:
            found.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes()[:80]}")
        except OSError:
            pass  # gone
    return found


def open_files(process):
    """What the descriptors of a process refer to; it may end meanwhile."""
    try:
        descriptors = os.listdir(process / "fd")
    except OSError:
        return  # gone
    for descriptor in descriptors:
        try:
            yield os.readlink(process / "fd" / descriptor)
        except OSError:
            continue  # gone, or closed meanwhile


def named_sockets():
    """Named sockets that processes of this test have open. Other jobs on this machine have sockets of the same form,
    and the number in a name is not proof enough: it is the holder that tells them apart."""
    with open("/proc/net/unix", encoding="ascii", errors="replace") as sockets:
        named = {fields[6]: fields[7] for fields in map(str.split, sockets) if len(fields) > 7 and "ddprun" in fields[7]}
    found = set()
    for entry in carriers(rf"{os.getpid()}-\w+"):
        for target in open_files(entry):
            socket = re.fullmatch(r"socket:\[(\d+)\]", target)
            if socket and socket[1] in named:
                found.add(named[socket[1]])
    return found


def traces(folder):
    """What jobs could leave on the machine: names in shared memory, temporary files, named sockets."""
    names = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
    names |= {str(path) for path in pathlib.Path(folder).rglob("*") if "/saved/" not in f"{path}/"}
    return names | named_sockets()


def left_behind(mark, folder, before):
    """What is still there after a generous time. Other jobs on this machine come and go meanwhile."""
    left = set(with_mark(mark)) | (traces(folder) - before)
    until = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < until:
        time.sleep(0.05)
        left &= set(with_mark(mark)) | traces(folder)
    return sorted(left)


def parent_of(pid):
    """None if it has been waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


class Training:
    def __init__(self, build, folder, number):
        self.mark = f"{os.getpid()}-{number}"
        self.saved = f"{folder}/saved/{number}"
        os.makedirs(self.saved, exist_ok=True)
        environment = dict(os.environ, TMPDIR=folder, **{MARK: self.mark})
        self.pids = {}
        self.agent = None
        self.errors = []
        self.last_pid_came = threading.Event()
        self.process = subprocess.Popen(
            [f"{build}/bin/ddprun", "--standalone", f"--nproc-per-node={RANKS}", "--max-restarts=3", "--no-python",
             f"{build}/stubs/counted_training", self.saved],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read_errors, daemon=True)
        self.reader.start()

    def read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)
            told = re.fullmatch(r"rank (\d+) pid (\d+)\n", line)
            if told:
                self.pids[int(told[1])] = int(told[2])
                # Not the keeper's first child at a later time: when the agent is gone, that can be the helper which
                # LeakSanitizer stops the keeper with, and without it the keeper never goes on.
                self.agent = self.agent or parent_of(int(told[2]))
            if len(self.pids) == RANKS:
                self.last_pid_came.set()

    def end(self):
        """(exit code, the last line of its output, which the pipe has room for)"""
        try:
            code = self.process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            stuck = with_mark(self.mark)
            self.process.kill()
            sys.exit(f"not over after {BOUND_S} s: {stuck}\n{''.join(self.errors)}")
        out = self.process.stdout.read()
        self.reader.join()
        return code, out.strip().split("\n")[-1]


def kill(pid):
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False  # it was quicker


def main():
    build, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print(f"seed {seed}: kill_moments.py {build} {count} {seed}", flush=True)
    chance = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="ddprun-kill-")
    failures = hits = 0
    try:
        # The shortest: of one that was held up most moments would come too late.
        length = BOUND_S
        for number in range(UNDISTURBED):
            undisturbed = Training(build, folder, f"undisturbed{number}")
            undisturbed.last_pid_came.wait(BOUND_S)
            began = time.monotonic()
            code, wanted = undisturbed.end()
            length = min(length, time.monotonic() - began)
            if code != 0 or "each sample 2 to 2 times" not in wanted:
                sys.exit(f"the undisturbed training failed ({code}): {wanted}\n{''.join(undisturbed.errors)}")
        before = traces(folder)
        start = time.monotonic()
        for number in range(count):
            if number and number % MOMENTS_BETWEEN_REPORTS == 0:
                print(f"{number} of {count} moments, {failures} failures, {time.monotonic() - start:.0f} s", flush=True)
            training = Training(build, folder, number)
            if not training.last_pid_came.wait(BOUND_S):
                sys.exit("the ranks did not start")
            moment = chance.uniform(0, length)
            what = chance.choices(["rank", "ranks", "agent", "keeper"], [7, 2, 1, 1])[0]
            victims = chance.sample(range(RANKS), 2 if what == "ranks" else 1)
            time.sleep(moment)
            if what in ("rank", "ranks"):
                hits += any([kill(training.pids[rank]) for rank in victims])
            else:
                victims = what
                hits += kill(training.agent if what == "agent" else training.process.pid)
            code, line = training.end()
            left = left_behind(training.mark, folder, before)
            if what in ("agent", "keeper") and code != 0:
                # As a person or a scheduler would: once more, from the checkpoints.
                training = Training(build, folder, number)
                code, line = training.end()
                left += left_behind(training.mark, folder, before)
            if code != 0 or line != wanted or left:
                failures += 1
                print(f"moment {number}: {victims} killed after {moment:.3f} s: exit {code}\n  {line}\n  wanted: "
                      f"{wanted}\n  left: {left}\n{''.join(training.errors)}", flush=True)
        print(f"{count} moments, {hits} in time, {failures} failures, {time.monotonic() - start:.0f} s; {wanted}")
    finally:
        shutil.rmtree(folder)
    sys.exit(failures > 0 or hits == 0)


if __name__ == "__main__":
    main()
