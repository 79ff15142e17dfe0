# SPDX-License-Identifier: Apache-2.0
"""Runs whose processes can all be found again: each carries a mark in its environment, which its
descendants inherit, in whichever session or process group they are."""
import contextlib
import itertools
import os
import pathlib
import signal
import time

MARK = "DDPRUN_BENCH_RUN"
END_BOUND_S = 10
numbers = itertools.count(1)


class Failed(Exception):
    """A program failed, hung, or is missing; in words, with the last line of what it printed."""

    def __init__(self, what, output=""):
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        super().__init__(f"{what}: {lines[-1]}" if lines else what)
        self.output = output


def new_mark():
    outer = os.environ.get(MARK)
    return f"{outer}.{next(numbers)}" if outer else f"{os.getpid()}-{time.monotonic_ns()}"


def marked(mark):
    """The living processes of a run and of the runs inside it."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            entries = (folder / "environ").read_bytes().split(b"\0")
            is_dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue  # ended meanwhile, or another user's
        values = [entry.partition(b"=")[2].decode(errors="replace") for entry in entries if entry.startswith(MARK.encode() + b"=")]
        if not is_dead and int(folder.name) != os.getpid() and any(v == mark or v.startswith(mark + ".") for v in values):
            found.append(int(folder.name))
    return found


def end_marked(mark):
    """Kills them, and those they start meanwhile."""
    until = time.monotonic() + END_BOUND_S
    while (left := marked(mark)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


@contextlib.contextmanager
def marked_run(seconds=None, keep=False):
    """Processes that are started inside are killed at the end (with `keep` only after an error).
    After `seconds` they are killed and Failed is raised. Main thread only."""
    outer, mark = os.environ.get(MARK), new_mark()
    os.environ[MARK] = mark

    def expire(*_):
        end_marked(mark)  # first: clean-up on the way out may wait for these processes
        raise Failed(f"hung, ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expire) if seconds else None
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    ended_well = False
    try:
        yield mark
        ended_well = True
    finally:
        if seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if not (keep and ended_well):
            end_marked(mark)
        if outer is None:
            del os.environ[MARK]
        else:
            os.environ[MARK] = outer
