# SPDX-License-Identifier: Apache-2.0
"""The memory of the launcher itself while two workers run: PSS of its processes, without the
workers."""
import pathlib
import signal
import subprocess
import sys
import time

import bench

REPETITIONS = 5


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def tree(pid):
    return [pid] + [below for child in children(pid) for below in tree(child)]


def pss_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no PSS of process {pid}")


def launcher_mb(command, folder):
    file = pathlib.Path(folder) / "notes"
    file.unlink(missing_ok=True)
    job = subprocess.Popen(
        [*command, bench.BIN / "bench_worker", file, "wait"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + bench.BOUND_S
        while not file.exists() or len(bench.notes(file)) < 2:
            if time.monotonic() > until or job.poll() is not None:
                raise bench.Failed(f"{command[0]} did not start its workers")
            time.sleep(0.01)
        own = [pid for pid in tree(job.pid) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() != "bench_worker"]
        return sum(pss_mb(pid) for pid in own)
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(bench.BOUND_S)


def measure_all(rows):
    options = ["--standalone", "--nproc-per-node=2", "--no-python"]
    peer = bench.torch_peer("torchrun")
    with bench.scratch() as folder:
        ours = bench.take_turns(
            REPETITIONS, lambda: launcher_mb([bench.BIN / "ddprun", *options], folder),
            (peer, lambda: launcher_mb([bench.torchrun(), *options], folder), REPETITIONS))
    rows.append(bench.row("keeper and agent, 2 workers", "MB PSS", ours, target="at most 12 MB", met=lambda mb, _: mb <= 12))
    rows.append(bench.row("launcher, 2 workers", "MB PSS", ours, peer))


if __name__ == "__main__":
    sys.exit(bench.main("memory", measure_all))
