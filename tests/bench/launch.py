# SPDX-License-Identifier: Apache-2.0
"""The time from the command to the last worker's main: ddprun, a bare spawn-and-wait loop, MPICH,
torchrun."""
import pathlib
import shutil
import sys

import bench

REPETITIONS = 21
TORCHRUN_REPETITIONS = 5


def launch_ms(command, folder, count):
    file = pathlib.Path(folder) / "notes"
    file.unlink(missing_ok=True)
    bench.run([bench.BIN / "stamped_exec", file, *command(file)])
    seen = bench.notes(file)
    begun = [when for event, _, when in seen if event == "begun"]
    if len(begun) != count:
        raise bench.Failed(f"{len(begun)} of {count} workers noted their start")
    return (max(begun) - seen[0][2]) / 1e6


def measure_all(rows):
    worker = bench.BIN / "bench_worker"
    with bench.scratch() as folder:
        for count in (2, 64):
            bench.progress(f"launch: {count} workers")

            def timed(*command):
                return lambda: launch_ms(lambda file: [*command, worker, file, "exit"], folder, count)

            options = ["--standalone", f"--nproc-per-node={count}", "--no-python"]
            loop, mpi, torch = bench.Peer("bare loop"), bench.Peer("mpiexec.hydra"), bench.torch_peer("torchrun")
            peers = [(loop, timed(bench.BIN / "spawn_loop", str(count)), REPETITIONS),
                     (mpi, timed(bench.mpiexec(), "-n", str(count)), REPETITIONS)]
            if count == 2:
                peers.append((torch, timed(bench.torchrun(), *options), TORCHRUN_REPETITIONS))
            # stamped_exec starts the peer, so a missing peer would not be reported as a missing
            # program.
            if not shutil.which(bench.mpiexec()):
                mpi.fail("missing: no mpiexec.hydra (package mpich)")
            ours = bench.take_turns(REPETITIONS, timed(bench.BIN / "ddprun", *options), *peers)
            case = f"{count} workers"
            rows.append(bench.row(case, "ms", ours, loop, "at most 1.5x + 5 ms", lambda a, b: a <= 1.5 * b + 5))
            rows.append(bench.row(case, "ms", ours, mpi, "quicker", lambda a, b: a < b))
            if count == 2:
                rows.append(bench.row(case, "ms", ours, torch, "200x quicker", lambda a, b: a * 200 <= b))


if __name__ == "__main__":
    sys.exit(bench.main("launch", measure_all))
