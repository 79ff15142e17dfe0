# SPDX-License-Identifier: Apache-2.0
"""Workers with much output: 64 MB in lines of 100 bytes through ddprun, torchrun and a bare `cat`
of each pipe.

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
        raise bench.Failed(f"{' '.join(map(str, command))} returned {job.returncode} and wrote {lines} of {line_count} lines")
    return MEGABYTES / max(ended - begun, 1e-9), usage.ru_utime + usage.ru_stime


def speed_and_cost(command):
    """(MB/s, CPU s per GB)"""
    _, at_rest = measure(command(1), WORKERS)
    speed, busy = measure(command(LINES), WORKERS * LINES)
    return speed, max(busy - at_rest, 0) / (MEGABYTES / 1e3)


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


def measure_all(rows):
    ddprun, peer, bare = bench.BIN / "ddprun", bench.torch_peer("torchrun"), bench.Peer("cat")
    prefixed = []
    with bench.scratch() as folder:
        prefix = launched(ddprun, folder, lambda: ["--log-line-prefix-template=[${rank}]:"])
        # One counter of folders for both programs.
        options = teed(folder)

        def turn():
            bench.progress("output: a repetition")
            prefixed.append(speed_and_cost(prefix))
            return speed_and_cost(launched(ddprun, folder, options))

        ours = bench.take_turns(
            REPETITIONS, turn, (bare, lambda: speed_and_cost(piped(folder)), REPETITIONS),
            (peer, lambda: speed_and_cost(launched(bench.torchrun(), folder, options)), TORCHRUN_REPETITIONS))
    for index, unit in enumerate(["MB/s", "CPU s/GB"]):
        def column(samples):
            return [sample[index] for sample in samples]

        cat = bare.of(lambda sample: sample[index])
        rows.append(bench.row(f"{WORKERS} workers, prefix", unit, column(prefixed), cat))
        rows.append(bench.row(f"{WORKERS} workers, tee and prefix", unit, column(ours), cat))
        words, met = [("no slower", lambda a, b: a >= b), ("at most half", lambda a, b: a <= b / 2)][index]
        rows.append(bench.row(
            f"{WORKERS} workers, tee and prefix", unit, column(ours), peer.of(lambda sample: sample[index]), words, met))


if __name__ == "__main__":
    sys.exit(bench.main("output", measure_all))
