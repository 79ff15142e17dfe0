# SPDX-License-Identifier: Apache-2.0
"""From a worker's death to the first optimizer step of both ranks in the next round, of a PyTorch script on CPUs: ddprun with --warm=1, with
it and ddprun.elastic, without either, and torchrun. A round of the four takes a minute and a half."""
import os
import pathlib
import re
import subprocess
import sys
import time

import bench

MODULE = pathlib.Path(__file__).resolve().parents[2] / "worker_sdk/python"
REPETITIONS = 3
TORCHRUN_ATTEMPTS = 4
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
        time.sleep(1)  # the other rank may still need this one
        os._exit(0)
    if dist.get_rank() == 1 and os.path.exists(os.environ["CRASH"]):
        os.write(1, b"died %d\\n" % time.monotonic_ns())
        os._exit(3)
    time.sleep(0.01)
"""


# The rank that survives keeps its process.
ELASTIC_SCRIPT = """
import os, time
import torch
from torch.nn.parallel import DistributedDataParallel
import ddprun
ddprun.init_process_group("gloo")
model = torch.nn.Linear(8, 8)
state = ddprun.State(model, torch.optim.SGD(model.parameters(), lr=0.1), step=0)

@ddprun.elastic
def train(state):
    wrapper = DistributedDataParallel(state.model)
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    steps = 0
    while True:
        state.optimizer.zero_grad()
        wrapper(torch.randn(4, 8)).sum().backward()
        state.optimizer.step()
        state.step += 1
        state.commit()
        steps += 1
        if steps == 1:
            os.write(1, b"stepped %d\\n" % time.monotonic_ns())
        if not is_first:
            time.sleep(1)
            os._exit(0)
        if os.environ["RANK"] == "1" and os.path.exists(os.environ["CRASH"]):
            os.write(1, b"died %d\\n" % time.monotonic_ns())
            os._exit(3)
        time.sleep(0.01)

train(state)
"""


def wait_for(file, pattern, count, job):
    until = time.monotonic() + 120
    while len(re.findall(pattern, file.read_text(errors="replace"))) < count:
        if job.poll() is not None or time.monotonic() > until:
            raise bench.Failed("the job did not come so far", file.read_text(errors="replace"))
        time.sleep(0.02)


def once(command, folder, is_warm, text=SCRIPT):
    """Milliseconds, and the memory of the parked processes as ddprun reports it."""
    script, crash, output = (pathlib.Path(folder) / name for name in ("train.py", "crash", "output"))
    script.write_text(text)
    crash.unlink(missing_ok=True)
    with output.open("wb") as file:
        job = subprocess.Popen(
            [*command, "--standalone", "--nproc-per-node=2", "--max-restarts=1", script],
            env=dict(os.environ, CRASH=str(crash), OMP_NUM_THREADS="1", PYTHONPATH=str(MODULE)), stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_for(output, r"stepped \d+\n", 2, job)
        if is_warm:
            wait_for(output, "workers.parked count=2", 1, job)
        crash.touch()
        job.wait(30)
    finally:
        if job.poll() is None:
            job.kill()
            job.wait()
    text = output.read_text(errors="replace")
    died = int(re.search(r"died (\d+)\n", text)[1])
    after = [int(when) for when in re.findall(r"stepped (\d+)\n", text) if int(when) > died]
    if len(after) != 2:
        raise bench.Failed("not both ranks were started again", text)
    memory = re.search(r'memory="(\d+ MiB)"', text)
    return (max(after) - died) / 1e6, memory[1] if memory else "-"


def measure_all(rows):
    if bench.why_no_torch():
        raise bench.Failed("PyTorch is " + bench.why_no_torch())
    python = bench.torch_python()
    ddprun = [bench.BIN / "ddprun", f"--python={python}", "--log-level=info"]
    torchrun, cold = bench.torch_peer("torchrun"), bench.torch_peer("without --warm")
    memory, kept = [], []
    with bench.scratch() as folder:
        def warm_ms():
            value, bytes_text = once([*ddprun, "--warm=1"], folder, True)
            memory.append(float(bytes_text.split()[0]))
            kept.append(once([*ddprun, "--warm=1"], folder, True, ELASTIC_SCRIPT)[0])
            return value

        def torchrun_ms():
            # Its restarted ranks may connect to a port of the failed round, and end.
            for _ in range(TORCHRUN_ATTEMPTS - 1):
                try:
                    return once([bench.torchrun()], folder, False)[0]
                except (bench.Failed, subprocess.TimeoutExpired):
                    bench.progress("torchrun: the restarted round failed")
            return once([bench.torchrun()], folder, False)[0]

        bench.progress("warm: a crash, one node, 2 ranks")
        ours = bench.take_turns(
            REPETITIONS, warm_ms, (cold, lambda: once(ddprun, folder, False)[0], REPETITIONS),
            (torchrun, torchrun_ms, REPETITIONS))
    for peer in (torchrun, cold):
        rows.append(bench.row(
            "crash to first step, PyTorch, 2 ranks", "ms", ours, peer, "3 x shorter", lambda ms, theirs: theirs >= 3 * ms))
    rows.append(bench.row(
        "the same with ddprun.elastic", "ms", kept, torchrun, "250 ms", lambda ms, _: ms <= 250, alone=True))
    rows.append(bench.row("memory of 2 parked processes", "MiB", memory))


if __name__ == "__main__":
    sys.exit(bench.main("warm", measure_all))
