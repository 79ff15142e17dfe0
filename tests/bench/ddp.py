# SPDX-License-Identifier: Apache-2.0
"""A training step of examples/mnist's network: what the Reducer adds to a plain loop, and the whole
step compared with PyTorch's DistributedDataParallel on the same network and batch. Pictures are
made up."""
import pathlib
import statistics
import subprocess
import sys

import allreduce
import bench

BATCHES = [64, 128, 512]
REPETITIONS = 5
SHARDED_FLOATS = 8 * 1024 * 1024
SHARDED_REPETITIONS = 3


def measure_ours(ranks, program, argument):
    server = subprocess.Popen([bench.BIN / "store_bench_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().strip()
        return allreduce.world([bench.BIN / program, str(argument)], ranks, port, **allreduce.HAS_STORE)
    finally:
        server.stdin.close()
        server.wait(bench.BOUND_S)


def measure_peer(ranks, script, argument):
    script = pathlib.Path(__file__).with_name(script)
    return allreduce.world([bench.torch_python(), script, str(argument)], ranks, allreduce.free_port())


def step_row(name, ours, batch):
    # Uses the processor's time, which is all of the time when no rank is waited for. Uses the ratio
    # within each run, since the machine's speed differs by more than one percent between runs.
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
                REPETITIONS, lambda: measure_ours(ranks, "ddp_bench", batch),
                (peer, lambda: measure_peer(ranks, "torch_ddp.py", batch), REPETITIONS))
            if ranks == 1:
                rows.append(step_row(name, ours, batch))

            def rate(us):
                return ranks * batch * 1e6 / us

            # One rank alone only compares the two libraries of matrix products: printed without a
            # target.
            has_target = ranks > 1
            rows.append(bench.row(
                f"{name}, trained", "samples/s", [rate(us) for us in allreduce.values(ours, "ddp", batch)],
                peer.of(lambda run: rate(run["ddp", batch])),
                "at least as quick" if has_target else "", (lambda a, b: a >= b) if has_target else None))

    for ranks in (2, 4):
        measure_sharded(rows, ranks)


def measure_sharded(rows, ranks):
    name = f"{ranks} ranks, sharded AdamW, 8 Mi floats"
    bench.progress(f"ddp: {name}")
    peer = bench.torch_peer("PyTorch ZeroRedundancyOptimizer (gloo)")
    ours = bench.take_turns(
        SHARDED_REPETITIONS, lambda: measure_ours(ranks, "sharded_bench", SHARDED_FLOATS),
        (peer, lambda: measure_peer(ranks, "torch_sharded.py", SHARDED_FLOATS), SHARDED_REPETITIONS))
    for what, case, unit, divisor, target in (
            ("step", "step", "ms", 1000, "at least as quick"), ("memory", "memory of a rank", "MiB PSS", 1024, "no more")):
        rows.append(bench.row(
            f"{name}, {case}", unit, [value / divisor for value in allreduce.values(ours, what, SHARDED_FLOATS)],
            peer.of(lambda run, what=what, divisor=divisor: run[what, SHARDED_FLOATS] / divisor), target, lambda a, b: a <= b))


if __name__ == "__main__":
    sys.exit(bench.main("ddp", measure_all))
