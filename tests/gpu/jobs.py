# SPDX-License-Identifier: Apache-2.0
"""Programs with a time limit of their own, and nothing left of them afterwards."""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
# A launcher that got SIGTERM has this long to end its workers; one that hangs has HUNG_GRACE_S.
LAUNCHER_GRACE_S = 10
HUNG_GRACE_S = 1
# What is just ending when a check is over is not left behind.
GRACE_S = 3
# A process that lives longer after SIGKILL is stuck in the kernel, and nothing can end it.
KILL_GRACE_S = 3
# A debugger may itself hang on a process that is stuck.
BACKTRACES_S = 8
MOST_BACKTRACES = 6


class Failed(Exception):
    """A check did not hold; the text says what was seen."""


class Overdue(Failed):
    """Something was not done within its time."""


class Skipped(Exception):
    """A check that cannot be made here; the text says what is missing."""


def adopt_orphans():
    """What a killed launcher leaves comes to us, so that it can be found and ended."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def contents(path):
    """Of a file of /proc; nothing where it has just gone, or may not be read."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def children(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for child in contents(task).split()]


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child] + descendants(child)
    return found


def name_of(pid):
    return contents(f"/proc/{pid}/comm")


def is_zombie(pid):
    state = contents(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return not state or state[0] == "Z"


def kernel_view(pid):
    """What the kernel says of each thread: no call here waits for the process."""
    lines = [f"process {pid} {name_of(pid)}"]
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        facts = [contents(task / name) for name in ("comm", "wchan", "syscall")]
        state = contents(task / "stat").rpartition(")")[2].split()[:1]
        lines.append(f"  thread {task.name} {facts[0]} state {''.join(state)} in {facts[1]}, system call {facts[2]}")
        lines += ["    " + line for line in contents(task / "stack").splitlines()]
    return "\n".join(lines) + "\n"


def debugger():
    return shutil.which("gdb") or shutil.which("cuda-gdb") or shutil.which("cuda-gdb", path="/usr/local/cuda/bin")


def write_backtraces(pids, path):
    """`path`: what the kernel says; beside it, where there is a debugger, the calls of all threads of each process that has
    started no other: a rank, and not its launcher."""
    pids = [pid for pid in pids if not is_zombie(pid)]
    path.write_text("\n".join(map(kernel_view, pids)), encoding="utf-8")
    program = debugger()
    if not program:
        return
    ranks = [pid for pid in pids if not children(pid)][:MOST_BACKTRACES]
    until = time.monotonic() + BACKTRACES_S
    running = []
    for pid in ranks:
        with open(f"{path}.{name_of(pid)}.{pid}", "wb") as out:
            running.append(subprocess.Popen(
                [program, "-nx", "-readnever", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 40"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT))
    for one in running:
        try:
            one.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
    # A process that its debugger has left behind stopped could not be ended by SIGTERM.
    for pid in ranks:
        send(pid, signal.SIGCONT)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


# Processes that SIGKILL has not ended: reported once.
UNENDING = set()


def end_all(grace_s=GRACE_S):
    """Ends every descendant that does not end by itself; returns the names of those."""
    left = []
    kill_at = time.monotonic() + grace_s
    while True:
        reap()
        running = [pid for pid in descendants(os.getpid()) if not is_zombie(pid) and pid not in UNENDING]
        now = time.monotonic()
        if not running:
            return sorted(set(left))
        if now > kill_at + KILL_GRACE_S:
            UNENDING.update(running)
            return sorted({*left, *(f"{name_of(pid)} ({pid}, SIGKILL does not end it)" for pid in running)})
        for pid in running if now >= kill_at else []:
            left.append(name_of(pid))
            send(pid, signal.SIGKILL)
        time.sleep(0.05)


class Job:
    """A command that has been started, its output in a file. Ends with its `with`."""

    def __init__(self, command, log, until, environment=None):
        self.command = [str(word) for word in command]
        self.log = pathlib.Path(log)
        self.until = until
        self.start = time.monotonic()
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is not None:
            return
        is_hung = kind is not None and issubclass(kind, Overdue)
        if is_hung:
            pids = [self.process.pid, *descendants(self.process.pid)]
            write_backtraces(pids, self.log.with_suffix(".backtraces"))
        self.process.terminate()
        try:
            self.process.wait(HUNG_GRACE_S if is_hung else LAUNCHER_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            try:
                self.process.wait(KILL_GRACE_S)
            except subprocess.TimeoutExpired:
                pass  # `end_all` reports it

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def left_s(self):
        return max(0.0, self.until - time.monotonic())

    def overdue(self, what):
        return Overdue(f"not within {self.until - self.start:.0f} s: {what}")

    def await_fact(self, what, fact):
        """Asks until `fact()` is true, while the job lives."""
        while True:
            value = fact()
            if value:
                return value
            if self.process.poll() is not None:
                raise Failed(f"ended with {self.process.returncode} before {what}")
            if self.left_s() == 0:
                raise self.overdue(what)
            time.sleep(0.002)

    def code(self):
        """Waits for its end."""
        try:
            return self.process.wait(self.left_s())
        except subprocess.TimeoutExpired:
            raise self.overdue(f"the end of {pathlib.Path(self.command[0]).name}") from None

    def require(self, code=0):
        """Waits for the end, which has to be this one; the output."""
        got = self.code()
        if got != code:
            raise Failed(f"exit code {got}, not {code}")
        return self.text()
