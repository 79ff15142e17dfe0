# SPDX-License-Identifier: Apache-2.0
"""The time from the command to the last worker's main on eight machines (namespaces) by ssh:
ddprun, MPICH over the same sshds."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hosts"))
import bench
import machines

COUNT = 8
WORKERS = 2
REPETITIONS = 9


def launch_ms(lab, command, count):
    file = lab.folder / "notes"
    file.unlink(missing_ok=True)
    bench.run([bench.BIN / "stamped_exec", file, *command, bench.BIN / "bench_worker", file, "exit"], env=lab.environment)
    seen = bench.notes(file)
    begun = [when for event, _, when in seen if event == "begun"]
    if len(begun) != count:
        raise bench.Failed(f"{len(begun)} of {count} workers noted their start")
    return (max(begun) - seen[0][2]) / 1e6


def measure_all(rows):
    if reason := machines.why_not():
        raise bench.Failed(reason)
    count = COUNT * WORKERS
    with machines.Lab(COUNT) as lab:
        names = ",".join(lab.names())
        mpi = bench.Peer("mpiexec.hydra")
        if not shutil.which(bench.mpiexec()):
            mpi.fail("missing: no mpiexec.hydra (package mpich)")
        ours = [bench.BIN / "ddprun", f"--hosts={names}", f"--nproc-per-node={WORKERS}", "--no-python"]
        theirs = [bench.mpiexec(), "-launcher", "ssh", "-launcher-exec", lab.bin / "ssh", "-hosts", names, "-ppn", str(WORKERS), "-n", str(count)]
        bench.progress(f"hosts: {COUNT} machines, the program is copied")
        first = [launch_ms(lab, ours, count)]
        bench.progress(f"hosts: {COUNT} machines, {count} workers")
        samples = bench.take_turns(REPETITIONS, lambda: launch_ms(lab, ours, count), (mpi, lambda: launch_ms(lab, theirs, count), REPETITIONS))
        case = f"{COUNT} machines, {count} workers"
        rows.append(bench.row(case, "ms", samples, mpi, "at most 1.5x", lambda a, b: a <= 1.5 * b))
        rows.append(bench.row(f"{case}, the program is copied first", "ms", first))


def main():
    if os.geteuid() == 0 and not machines.why_not():
        machines.enter_namespace()
    return bench.main("ssh", measure_all)


if __name__ == "__main__":
    sys.exit(main())
