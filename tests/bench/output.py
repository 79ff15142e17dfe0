# SPDX-License-Identifier: Apache-2.0
"""Workers that talk: 64 MB in lines of 100 bytes through ddprun, torchrun and a bare `cat` of each pipe.

MB/s are from the first byte on the console to the last. CPU seconds are those of everything that was
started, workers included, less what the same command takes for one line a worker.
"""
import os
import pathlib
import subprocess
import sys
import time

import bench

WORKERS = 8
LINES = 80_000
LINE_BYTES = 100
MEGABYTES = WORKERS * LINES * LINE_BYTES / 1e6
REPETITIONS = 5
TORCHRUN_REPETITIONS = 2


def measure(command, line_count):
    """(MB/s, CPU seconds); every line has to arrive."""
    job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    begun, ended, lines = None, None, 0
    while chunk := os.read(job.stdout.fileno(), 1 << 20):
        ended = time.monotonic()
        begun = begun or ended
        lines += chunk.count(b"\n")
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode != 0 or lines != line_count:
        sys.exit(f"{' '.join(map(str, command))} returned {job.returncode} and wrote {lines} of {line_count} lines")
    return MEGABYTES / max(ended - begun, 1e-9), usage.ru_utime + usage.ru_stime


def speed_and_cost(command, repetitions):
    """([MB/s], [CPU s per GB])"""
    speeds, costs = [], []
    for _ in range(repetitions):
        _, at_rest = measure(command(1), WORKERS)
        speed, busy = measure(command(LINES), WORKERS * LINES)
        speeds.append(speed)
        costs.append(max(busy - at_rest, 0) / (MEGABYTES / 1e3))
    return speeds, costs


def launched(program, folder, options):
    def command(lines):
        return [
            program, "--standalone", f"--nproc-per-node={WORKERS}", *options(),
            "--no-python", bench.BIN / "bench_worker", pathlib.Path(folder) / "notes", "say", str(lines)]
    return command


def teed(folder):
    """A folder for each life, so that none adds to another's files; they are small enough to stay."""
    count = iter(range(1000))
    return lambda: ["--tee=3", f"--log-dir={pathlib.Path(folder) / str(next(count))}"]


def piped(folder):
    def command(lines):
        worker = f"{bench.BIN / 'bench_worker'} {pathlib.Path(folder) / 'notes'} say {lines} | cat"
        return ["/bin/sh", "-c", " & ".join([worker] * WORKERS) + " & wait"]
    return command


def main():
    torchrun = bench.torchrun()
    with bench.scratch() as folder:
        ddprun = bench.BIN / "ddprun"
        prefixed = speed_and_cost(
            launched(ddprun, folder, lambda: ["--log-line-prefix-template=[${rank}]:"]), REPETITIONS)
        ours = speed_and_cost(launched(ddprun, folder, teed(folder)), REPETITIONS)
        bare = speed_and_cost(piped(folder), REPETITIONS)
        peer = speed_and_cost(launched(torchrun, folder, teed(folder)), TORCHRUN_REPETITIONS) if torchrun else None
    rows = []
    for index, unit in enumerate(["MB/s", "CPU s/GB"]):
        rows.append(bench.row(f"{WORKERS} workers, prefix", unit, prefixed[index], bare[index], "cat"))
        rows.append(bench.row(f"{WORKERS} workers, tee and prefix", unit, ours[index], bare[index], "cat"))
        if peer:
            words, met = [
                ("no slower", lambda a, b: a >= b), ("at most half", lambda a, b: a <= b / 2)][index]
            rows.append(bench.row(
                f"{WORKERS} workers, tee and prefix", unit, ours[index], peer[index], "torchrun", words, met))
    return bench.finish("output", rows)


if __name__ == "__main__":
    sys.exit(main())
