# SPDX-License-Identifier: Apache-2.0
"""What the benches share: rows of ours beside a peer, a table, a file, and a verdict.

A row is {case, unit, ours, peer, peer_name, ratio, target, met}: `ratio` is ours / peer of medians
from the same run, `target` says in words what was to be reached, `met` is null without a target.
"""
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# scripts/bench.sh gives both: where the programs are, and where the rows go.
BIN = pathlib.Path(sys.argv[1]).resolve()
OUT = pathlib.Path(sys.argv[2])
BOUND_S = 120


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}"


def torchrun():
    """The peer, or None with the reason said."""
    python = os.environ.get("DDPRUN_TORCH_PYTHON", str(ROOT / "build" / "torch-venv" / "bin" / "python"))
    program = pathlib.Path(python).parent / "torchrun"
    if not program.exists():
        print(f"no torchrun beside {python}: its column stays empty (scripts/test.sh --all installs it)")
        return None
    return str(program)


def mpiexec():
    program = shutil.which("mpiexec.hydra")
    if program is None:
        print("no mpiexec.hydra (package mpich): its column stays empty")
    return program


def notes(path):
    """Lines of bench_worker and stamped_exec: [(event, rank, nanoseconds)]."""
    rows = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
    return [(event, rank, int(when)) for event, rank, when in rows]


def run(command, **options):
    """A command that has to succeed within the bound."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BOUND_S, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} returned {done.returncode}:\n{done.stdout.decode(errors='replace')}")
    return done


def row(case, unit, ours, peer=None, peer_name="", target="", met=None):
    ours = statistics.median(ours)
    peer = statistics.median(peer) if peer else None
    return {
        "case": case, "unit": unit, "ours": ours, "peer": peer, "peer_name": peer_name,
        "ratio": ours / peer if peer else None, "target": target,
        "met": met(ours, peer) if met else None,
    }


def shown(value):
    return "-" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def finish(name, rows):
    """Prints the table, writes build/bench/NAME.json; the exit status for --check."""
    table = [["case", "unit", "ours", "peer", "", "ours/peer", "target", "met"]]
    for r in rows:
        met = {None: "", True: "yes", False: "NO"}[r["met"]]
        table.append([r["case"], r["unit"], shown(r["ours"]), shown(r["peer"]), r["peer_name"], shown(r["ratio"]), r["target"], met])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"bench": name, "machine": machine(), "rows": rows}, indent=1) + "\n")
    missed = [r["case"] for r in rows if r["met"] is False]
    if missed:
        print("missed: " + "; ".join(missed))
    return 1 if missed and "--check" in sys.argv else 0


def scratch():
    return tempfile.TemporaryDirectory(prefix="ddprun-bench-")
