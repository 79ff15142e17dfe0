# SPDX-License-Identifier: Apache-2.0
"""From the command to the last worker's main: ddprun, a bare spawn-and-wait loop, MPICH, torchrun."""
import pathlib
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
        sys.exit(f"{len(begun)} of {count} workers noted their start")
    return (max(begun) - seen[0][2]) / 1e6


def main():
    worker = bench.BIN / "bench_worker"
    torchrun, mpiexec = bench.torchrun(), bench.mpiexec()
    rows = []
    with bench.scratch() as folder:
        for count in (2, 64):
            commands = {
                "ddprun": lambda file: [bench.BIN / "ddprun", "--standalone", f"--nproc-per-node={count}", "--no-python", worker, file, "exit"],
                "bare loop": lambda file: [bench.BIN / "spawn_loop", str(count), worker, file, "exit"],
            }
            if mpiexec:
                commands["mpiexec.hydra"] = lambda file: [mpiexec, "-n", str(count), worker, file, "exit"]
            times = {name: [] for name in commands}
            for _ in range(REPETITIONS):  # interleaved: whatever else the machine does hits all of them
                for name, command in commands.items():
                    times[name].append(launch_ms(command, folder, count))
            rows.append(bench.row(
                f"{count} workers", "ms", times["ddprun"], times["bare loop"], "bare loop",
                "at most 1.5x + 5 ms", lambda ours, peer: ours <= 1.5 * peer + 5))
            if mpiexec:
                rows.append(bench.row(
                    f"{count} workers", "ms", times["ddprun"], times["mpiexec.hydra"], "mpiexec.hydra",
                    "quicker", lambda ours, peer: ours < peer))
            if torchrun and count == 2:
                def torch_command(file):
                    return [torchrun, "--standalone", "--nproc-per-node=2", "--no-python", worker, file, "exit"]
                peer = [launch_ms(torch_command, folder, count) for _ in range(TORCHRUN_REPETITIONS)]
                rows.append(bench.row(
                    f"{count} workers", "ms", times["ddprun"], peer, "torchrun",
                    "200x quicker", lambda ours, other: ours * 200 <= other))
    return bench.finish("launch", rows)


if __name__ == "__main__":
    sys.exit(main())
