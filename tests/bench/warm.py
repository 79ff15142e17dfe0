# SPDX-License-Identifier: Apache-2.0
"""From a worker's death to the first optimizer step of both new ranks, of a PyTorch script on CPUs: ddprun with --warm=1 and without, and
torchrun. DDPRUN_TORCH_PYTHON names the interpreter; with it alone this is run by hand, since each value takes half a minute."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import bench

REPETITIONS = 3
SCRIPT = """
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
steps = 0
while True:
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    steps += 1
    if steps == 1:
        os.write(1, b"stepped %d\\n" % time.monotonic_ns())
    if not is_first:
        os._exit(0)
    if dist.get_rank() == 1 and os.path.exists(os.environ["CRASH"]):
        os.write(1, b"died %d\\n" % time.monotonic_ns())
        os._exit(3)
    time.sleep(0.01)
"""


def wait_for(file, pattern, count, job):
    until = time.monotonic() + 120
    while len(re.findall(pattern, file.read_text(errors="replace"))) < count:
        if job.poll() is not None or time.monotonic() > until:
            raise bench.Failed("the job did not come so far", file.read_text(errors="replace"))
        time.sleep(0.02)


def once(command, folder, is_warm):
    """Milliseconds, and the memory of the parked processes as ddprun says it."""
    script, crash, output = (pathlib.Path(folder) / name for name in ("train.py", "crash", "output"))
    script.write_text(SCRIPT)
    crash.unlink(missing_ok=True)
    with output.open("wb") as file:
        job = subprocess.Popen(
            [*command, "--standalone", "--nproc-per-node=2", "--max-restarts=1", script],
            env=dict(os.environ, CRASH=str(crash), OMP_NUM_THREADS="1"), stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_for(output, r"stepped \d+\n", 2, job)
        if is_warm:
            wait_for(output, "workers.parked count=2", 1, job)
        crash.touch()
        job.wait(120)
    finally:
        if job.poll() is None:
            job.kill()
            job.wait()
    text = output.read_text(errors="replace")
    died = int(re.search(r"died (\d+)\n", text)[1])
    after = [int(when) for when in re.findall(r"stepped (\d+)\n", text) if int(when) > died]
    if len(after) != 2:
        raise bench.Failed("not both ranks were started again", text)
    memory = re.search(r'memory="?([^"\n]*?MiB)', text)
    return (max(after) - died) / 1e6, memory[1] if memory else "-"


def main():
    python = os.environ.get("DDPRUN_TORCH_PYTHON")
    if not python:
        print("SKIP: DDPRUN_TORCH_PYTHON names no Python with PyTorch")
        return 0
    ddprun = [bench.BIN / "ddprun", f"--python={python}", "--log-level=info"]
    ways = {
        "ddprun --warm=1": ([*ddprun, "--warm=1"], True),
        "ddprun": (ddprun, False),
        "torchrun": ([pathlib.Path(python).parent / "torchrun"], False),
    }
    times, memory = {name: [] for name in ways}, "-"
    with bench.scratch() as folder:
        for _ in range(REPETITIONS):
            for name, (command, is_warm) in ways.items():
                value, shown = once(command, folder, is_warm)
                times[name].append(value)
                memory = shown if is_warm else memory
    for name, values in times.items():
        print(f"{name:16} median {statistics.median(values):8.1f} ms  from {min(values):8.1f} to {max(values):8.1f}  n={len(values)}")
    print(f"memory of the two parked processes: {memory}")
    others = [statistics.median(times[name]) for name in ("ddprun", "torchrun")]
    return 0 if min(others) >= 3 * statistics.median(times["ddprun --warm=1"]) else 1


if __name__ == "__main__":
    sys.exit(main())
