# SPDX-License-Identifier: Apache-2.0
"""A training step of examples/mnist's network: what the Reducer adds to a plain loop, and the whole
step beside PyTorch's DistributedDataParallel on the same network and batch. Pictures are made up."""
import pathlib
import statistics
import subprocess
import sys

import allreduce
import bench

BATCHES = [64, 128, 512]
REPETITIONS = 5


def measure_ours(ranks, batch):
    server = subprocess.Popen([bench.BIN / "store_bench_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().strip()
        return allreduce.world([bench.BIN / "ddp_bench", str(batch)], ranks, port, **allreduce.HAS_STORE)
    finally:
        server.stdin.close()
        server.wait(bench.BOUND_S)


def measure_peer(ranks, batch):
    script = pathlib.Path(__file__).with_name("torch_ddp.py")
    return allreduce.world([bench.torch_python(), script, str(batch)], ranks, allreduce.free_port())


def step_row(name, ours, batch):
    # The processor's time, which is all of it when no rank is waited for; and each run's own
    # ratio: from run to run the machine differs by more than one percent.
    with_ddp = allreduce.values(ours, "ddp_cpu", batch)
    plain = allreduce.values(ours, "plain_cpu", batch)
    ratio = statistics.median(a / b for a, b in zip(with_ddp, plain))
    row = bench.row(f"{name}, step", "us of CPU", with_ddp, bench.beside("plain loop", plain), "within 1 %", lambda *_: ratio <= 1.01)
    row["ratio"] = ratio
    return row


def measure_all(rows):
    for ranks in (1, 2):
        for batch in BATCHES:
            name = f"{ranks} rank{'s' if ranks > 1 else ''}, batch {batch}"
            bench.progress(f"ddp: {name}")
            peer = bench.torch_peer("PyTorch DDP (gloo)")
            ours = bench.take_turns(
                REPETITIONS, lambda: measure_ours(ranks, batch), (peer, lambda: measure_peer(ranks, batch), REPETITIONS))
            if ranks == 1:
                rows.append(step_row(name, ours, batch))

            def rate(us):
                return ranks * batch * 1e6 / us

            # One rank alone compares the two libraries of matrix products: printed, and no target.
            has_target = ranks > 1
            rows.append(bench.row(
                f"{name}, trained", "samples/s", [rate(us) for us in allreduce.values(ours, "ddp", batch)],
                peer.of(lambda run: rate(run["ddp", batch])),
                "at least as quick" if has_target else "", (lambda a, b: a >= b) if has_target else None))


if __name__ == "__main__":
    sys.exit(bench.main("ddp", measure_all))
