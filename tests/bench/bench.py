# SPDX-License-Identifier: Apache-2.0
"""Code that the benches share: rows that compare ddprun with a peer, a table, a file, and a
verdict.

A row is {case, unit, ours, peer, peer_name, peer_error, ratio, target, met}: `ratio` is ours / peer of medians
from the same run, `target` says in words what was to be reached, `met` is null without a target.
"""
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import processes
import table
from processes import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Arguments from run_benches.py: the folder of the programs, and the file for the rows.
BIN = pathlib.Path(sys.argv[1]).resolve()
OUT = pathlib.Path(sys.argv[2])
BOUND_S = 120
PEER_BOUND_S = 60
LONGEST_REASON = 160


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}"


def torch_python():
    installed = max(ROOT.glob("build/torch-*/bin/python"), default=ROOT / "build" / "torch" / "bin" / "python")
    return pathlib.Path(os.environ.get("DDPRUN_TORCH_PYTHON") or installed)


def torchrun():
    return str(torch_python().parent / "torchrun")


def why_no_torch():
    """Why the peer is missing, or nothing."""
    if pathlib.Path(torchrun()).exists():
        return ""
    return f"missing: no torchrun beside {torch_python()}"


def torch_version():
    if why_no_torch():
        return ""
    asked = [torch_python(), "-c", "from importlib.metadata import version; print(version('torch'))"]
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND_S)
    return done.stdout.strip()


class Peer:
    """Another program to compare with. Its first failure ends its measurements, never the bench:
    rows have the reason."""

    def __init__(self, name, error="", bound_s=PEER_BOUND_S):
        self.name, self.error, self.bound_s, self.samples = name, error, bound_s, []

    def take(self, measure, *arguments):
        sample = self.attempt(measure, *arguments)
        if not self.error:
            self.samples.append(sample)

    def attempt(self, call, *arguments, keep=False):
        """Returns call()'s result, or None. Unless `keep` is set, the processes that it started
        have ended by then."""
        if self.error:
            return None
        try:
            with processes.marked_run(self.bound_s, keep):
                return call(*arguments)
        except (Failed, OSError, ValueError, LookupError, RuntimeError, subprocess.SubprocessError) as failure:
            self.fail(f"missing: {failure}" if isinstance(failure, FileNotFoundError) else str(failure) or type(failure).__name__)
            return None

    def fail(self, reason):
        self.error, self.samples = " ".join(reason.split())[-LONGEST_REASON:], []
        progress(f"{self.name}: {self.error}")

    def of(self, pick):
        """One value of each sample, as a peer of its own for a row."""
        part = Peer(self.name, self.error)
        part.samples = [value for value in map(pick, self.samples) if value is not None]
        return part


def torch_peer(name, bound_s=PEER_BOUND_S):
    return Peer(name, why_no_torch(), bound_s)


def take_turns(repetitions, ours, *peers):
    """Samples of ours. Between them each of `peers` (peer, measure, its repetitions) is measured,
    evenly spread, so that other load of the machine affects all of them."""
    samples = []
    for turn in range(repetitions):
        samples.append(ours())
        for peer, measure, wanted in peers:
            if turn * wanted // repetitions != (turn + 1) * wanted // repetitions:
                peer.take(measure)
    return samples


def progress(text):
    elapsed = time.monotonic() - float(os.environ.setdefault("DDPRUN_BENCH_BEGAN", str(time.monotonic())))
    print(f"[{elapsed:5.0f} s] {text}", file=sys.stderr, flush=True)


def mpiexec():
    return shutil.which("mpiexec.hydra") or "mpiexec.hydra"


def notes(path):
    """Lines of bench_worker and stamped_exec: [(event, rank, nanoseconds)]."""
    rows = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
    return [(event, rank, int(when)) for event, rank, when in rows]


def run(command, **options):
    """A command that has to succeed within the bound."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BOUND_S, **options)
    if done.returncode != 0:
        raise Failed(f"{pathlib.Path(command[0]).name} {ended_how(done.returncode)}", done.stdout.decode(errors="replace"))
    return done


def ended_how(code):
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"returned {code}"


def row(case, unit, ours, peer=None, target="", met=None, alone=False):
    """`peer` is a Peer, or None. `alone`: the target does not depend on the peer."""
    ours = statistics.median(ours)
    theirs = statistics.median(peer.samples) if peer and peer.samples else None
    is_judged = met and (alone or peer is None or theirs is not None)
    return {
        "case": case, "unit": unit, "ours": ours, "peer": theirs, "peer_name": peer.name if peer else "",
        "peer_error": peer.error if peer else "", "ratio": ours / theirs if theirs else None, "target": target,
        "met": met(ours, theirs) if is_judged else None,
    }


def beside(name, samples):
    """A Peer with samples of another program of ours."""
    part = Peer(name)
    part.samples = samples
    return part


def versions():
    asked = subprocess.run([BIN / "ddprun", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND_S)
    return f"{(asked.stdout.splitlines() or ['ddprun of unknown version'])[0]}; PyTorch {torch_version() or 'missing'}"


def write(name, rows, ended):
    result = {"bench": name, "machine": machine(), "versions": versions(), "torch": torch_version(), "ended": ended, "rows": rows}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=1) + "\n")
    return result


def terminated(*_):
    raise KeyboardInterrupt


def main(name, measure):
    """Calls measure(rows), which appends its rows. However it ends, what was measured so far is printed and
    written, and no process is left. The exit status: 1 for a failure of ours, or with --check for a missed target."""
    signal.signal(signal.SIGTERM, terminated)
    rows, ended, status = [], "", 0
    progress(f"{name}: begins")
    try:
        with processes.marked_run():
            measure(rows)
    except KeyboardInterrupt:
        ended, status = "cut off", 130
    except (Failed, OSError, RuntimeError, subprocess.SubprocessError) as failure:
        print(getattr(failure, "output", ""), file=sys.stderr)
        ended, status = f"failed: {failure}", 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    result = write(name, rows, ended)
    progress(f"{name}: {ended or 'done'}")
    if "--no-table" not in sys.argv:
        print("\n".join(table.lines_of([result])))
    return status or (1 if table.missed([result]) and "--check" in sys.argv else 0)


def scratch():
    return tempfile.TemporaryDirectory(prefix="ddprun-bench-")
