# SPDX-License-Identifier: Apache-2.0
"""Programs with a time limit of their own, and nothing left of them afterwards."""
import ctypes
import os
import pathlib
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
# A launcher that got SIGTERM has this long to end its workers.
LAUNCHER_GRACE_S = 10
# What is just ending when a check is over is not left behind.
GRACE_S = 3


class Failed(Exception):
    """A check did not hold; the text says what was seen."""


class Skipped(Exception):
    """A check that cannot be made here; the text says what is missing."""


def adopt_orphans():
    """What a killed launcher leaves comes to us, so that it can be found and ended."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text(encoding="ascii").split()]
        except OSError:
            pass  # it has just ended
    return found


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child] + descendants(child)
    return found


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def is_zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def end_all(grace_s=GRACE_S):
    """Ends every descendant that does not end by itself; returns the names of those."""
    left = []
    kill_at = time.monotonic() + grace_s
    until = kill_at + LAUNCHER_GRACE_S
    while True:
        running = [pid for pid in descendants(os.getpid()) if not is_zombie(pid)]
        for pid in running if time.monotonic() >= kill_at else []:
            left.append(name_of(pid))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if not running or time.monotonic() > until:
            return sorted(set(left))
        time.sleep(0.05)


class Job:
    """A command that has been started, its output in a file. Ends with its `with`."""

    def __init__(self, command, log, limit_s, environment=None):
        self.command = [str(word) for word in command]
        self.log = pathlib.Path(log)
        self.until = time.monotonic() + limit_s
        self.limit_s = limit_s
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LAUNCHER_GRACE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def left_s(self):
        return max(0.0, self.until - time.monotonic())

    def await_fact(self, what, fact):
        """Asks until `fact()` is true, while the job lives."""
        while True:
            value = fact()
            if value:
                return value
            if self.process.poll() is not None:
                raise Failed(f"ended with {self.process.returncode} before {what}")
            if self.left_s() == 0:
                raise Failed(f"not within {self.limit_s:.0f} s: {what}")
            time.sleep(0.002)

    def code(self):
        """Waits for its end."""
        try:
            return self.process.wait(self.left_s())
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {self.limit_s:.0f} s") from None

    def require(self, code=0):
        """Waits for the end, which has to be this one; the output."""
        got = self.code()
        if got != code:
            raise Failed(f"exit code {got}, not {code}")
        return self.text()
