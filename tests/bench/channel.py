# SPDX-License-Identifier: Apache-2.0
"""The cost of a step's report for a worker under ddprun, from C++ and from Python, compared with an
all_reduce of one flag over Gloo, by which ranks would exchange the same information."""
import os
import pathlib
import sys

import bench

MODULE = pathlib.Path(__file__).resolve().parents[2] / "worker_sdk" / "python"
PYTHON = """
import ddprun, time
ddprun.report(0)
assert ddprun._connection is not None
for _ in range(5):
    begin = time.perf_counter()
    for step in range(500_000):
        ddprun.report(step)
    print((time.perf_counter() - begin) / 500_000 * 1e9)
"""
FLAG = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
flag = torch.zeros(1)
for _ in range(6):
    begin = time.perf_counter()
    for _ in range(500):
        dist.all_reduce(flag)
    if dist.get_rank() == 0:
        print((time.perf_counter() - begin) / 500 * 1e9)
dist.destroy_process_group()
"""


def numbers(options, *command):
    """The numbers in the job's output; the report is on standard error, which a job that succeeds
    does not use."""
    done = bench.run([bench.BIN / "ddprun", "--standalone", *options, *command],
                     env={**os.environ, "PYTHONPATH": str(MODULE), "OMP_NUM_THREADS": "1"})
    return [float(line) for line in done.stdout.decode().splitlines()]


def measure_all(rows):
    with bench.scratch() as folder:
        script, flag = pathlib.Path(folder) / "report.py", pathlib.Path(folder) / "flag.py"
        script.write_text(PYTHON)
        flag.write_text(FLAG)
        peer = bench.torch_peer("all_reduce of a flag, 2 ranks, PyTorch")
        peer.take(lambda: sorted(numbers(["--nproc-per-node=2", f"--python={bench.torch_python()}"], flag)[1:])[2])
        rows.append(bench.row("report from C++", "ns", numbers(["--no-python"], bench.BIN / "channel_bench"), peer,
                              target="at most 50 ns", met=lambda ns, _: ns <= 50, alone=True))
        rows.append(bench.row("report from Python", "ns", numbers([f"--python={sys.executable}"], script), peer,
                              target="at most 1000 ns", met=lambda ns, _: ns <= 1000, alone=True))


if __name__ == "__main__":
    sys.exit(bench.main("channel", measure_all))
