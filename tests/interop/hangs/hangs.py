# SPDX-License-Identifier: Apache-2.0
"""Ten kinds of hang of an unmodified PyTorch script under --hang-after: which rank the screen names.

usage: hangs.py DDPRUN LIMIT_SECONDS REPEATS [KIND...]

DDPRUN_TORCH_PYTHON is a Python with PyTorch.

Each job has three ranks, of which rank 1 hangs in its own way at the third step; the limit is
--hang-after. Prints a row for each kind: how often rank 1 was named, and how long after the limit
at most. Ends with 1 when a kind is not named as the table below says.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

TRAIN = """
import os, signal, socket, sys, threading, time
import torch
import torch.distributed as dist

KIND, AT = sys.argv[1], 3

def nap(): time.sleep(10000)

def hang(rank, store):
    if KIND == "sleep": nap()
    elif KIND == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    elif KIND == "loop":
        while True: pass
    elif KIND == "key": store.get("never/set")
    elif KIND == "connect":
        full = socket.create_server(("127.0.0.1", 0), backlog=0)
        many = [socket.socket() for _ in range(4)]
        for one in many: one.setblocking(False); one.connect_ex(full.getsockname())
        socket.create_connection(full.getsockname())
    elif KIND == "lock":
        lock = threading.Lock(); lock.acquire(); lock.acquire()
    elif KIND == "collective": dist.barrier()
    elif KIND == "return":
        threading.Thread(target=nap).start()
        sys.exit(0)
    elif KIND == "pipe": os.read(os.pipe()[0], 1)

def main():
    rank = int(os.environ["RANK"])
    if KIND == "start" and rank == 1: nap()
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    step = 0
    while True:
        if step == AT and rank == 1: hang(rank, store)
        model(torch.ones(4, 8)).sum().backward()
        loss = torch.ones(4)
        dist.all_reduce(loss)
        step += 1
        if step == AT: print(f"step {step}", flush=True)
        time.sleep(0.01)

main()
"""

# What the screen says of rank 1. A rank that loops works, so it delays the others.
EXPECTED = {
    "sleep": r"the job hangs: .*; rank 1 on ",
    "stop": r"the job hangs: .*; rank 1 on \S+ is stopped by a signal",
    "loop": r"rank 1 on \S+ delays the others",
    "key": r"the job hangs: .*; rank 1 on ",
    "connect": r"the job hangs: .*; rank 1 on ",
    "lock": r"the job hangs: .*; rank 1 on ",
    "collective": r"the job hangs: .*; rank 1 on ",
    "return": r"the job hangs: .*; rank 1 on ",
    "pipe": r"the job hangs: .*; rank 1 on ",
    "start": r"the job hangs: .*; rank 1 on ",
}


def run(ddprun, python, limit, kind, folder):
    """The first line of the verdict, and how long after the last step it came."""
    script = folder / "train.py"
    script.write_text(TRAIN)
    command = [
        ddprun, "--standalone", "--nproc-per-node=3", f"--python={python}",
        f"--hang-after={limit}s", "--shutdown-timeout=2", str(script), kind,
    ]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    stopped_at = time.monotonic()
    too_late = threading.Timer(float(limit) + 150, job.terminate)
    too_late.daemon = True
    too_late.start()
    lines = []
    for line in job.stdout:
        lines.append(line)
        if line.startswith("step "):
            stopped_at = time.monotonic()
        if line.startswith("ddprun: ") and ("hangs" in line or "delay" in line):
            took = time.monotonic() - stopped_at
            job.terminate()
            job.stdout.read()
            job.wait(timeout=60)
            too_late.cancel()
            return line.strip(), took
    return "the job ended: " + "".join(lines[-5:]), 0.0


def main():
    ddprun, limit, repeats = sys.argv[1:4]
    kinds = sys.argv[4:] or list(EXPECTED)
    python = os.environ.get("DDPRUN_TORCH_PYTHON")
    if not python:
        print("SKIP hangs of PyTorch scripts: no DDPRUN_TORCH_PYTHON")
        return 1 if os.environ.get("DDPRUN_REQUIRE_TORCH") == "1" else 0
    is_wrong = False
    for kind in kinds:
        named, longest = 0, 0.0
        for _ in range(int(repeats)):
            with tempfile.TemporaryDirectory() as folder:
                line, took = run(ddprun, python, limit, kind, pathlib.Path(folder))
            if re.search(EXPECTED[kind], line):
                named += 1
            else:
                print(f"{kind}: {line}", flush=True)
            longest = max(longest, took - float(limit))
        is_wrong = is_wrong or named < int(repeats)
        print(f"{kind:12} {named} of {repeats}, at most {longest:.1f} s after the limit", flush=True)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
