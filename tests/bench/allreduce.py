# SPDX-License-Identifier: Apache-2.0
"""all_reduce of float32 between processes of this machine, beside what the memory allows and beside
PyTorch's gloo. Ours and the peer take turns; each measurement is a world of its own."""
import os
import pathlib
import socket
import subprocess
import sys

import bench

KIB, MIB = 1024, 1024 * 1024
SIZES = {KIB: "1 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB", 25 * MIB: "25 MiB", 64 * MIB: "64 MiB"}
REPETITIONS = 3


def torch_python():
    bench.torchrun()  # says why, if there is none
    python = os.environ.get("DDPRUN_TORCH_PYTHON", str(bench.ROOT / "build" / "torch-venv" / "bin" / "python"))
    return python if (pathlib.Path(python).parent / "torchrun").exists() else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# There is a store already; without this rank 0 would make one.
HAS_STORE = {"TORCHELASTIC_USE_AGENT_STORE": "True"}


def world(command, ranks, port, **more):
    """Runs a world of this size; {(what, bytes): microseconds}."""
    processes = []
    for rank in range(ranks):
        environment = dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks),
            GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), DDPRUN_ROUND="0",
            DDPRUN_PLUGIN_DIR=str(bench.BIN.parent / "lib"), GLOO_SOCKET_IFNAME="lo", **more)
        processes.append(subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=bench.BOUND_S)[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{command[0]} failed")
    lines = [line.split() for line in outputs[0].splitlines()]
    return {(what, int(size)): float(us) for what, size, us in lines}


def measure_ours(ranks, sizes):
    return world([bench.BIN / "allreduce_bench", *map(str, sizes)], ranks, free_port())


def measure_peer(python, ranks, sizes):
    if python is None:
        return {}
    script = pathlib.Path(__file__).with_name("torch_allreduce.py")
    return world([python, script, *map(str, sizes)], ranks, free_port())


def values(runs, what, size):
    return [run[what, size] for run in runs if (what, size) in run]


def rows_of(ranks, ours, peers):
    crowded = ranks > os.cpu_count()
    rows = []
    for size, name in SIZES.items():
        allocated = values(ours, "allocated", size)
        gloo = values(peers, "gloo", size)
        target, met = ("", None)
        if crowded and gloo:
            target, met = "no worse than gloo", lambda a, b: a <= b
        elif size == 64 * MIB and gloo:
            target, met = "8 x quicker", lambda a, b: a * 8 <= b
        elif size == KIB and not crowded:
            target, met = "under 3 us", lambda a, b: a < 3
        rows.append(bench.row(f"{ranks} ranks, {name}, allocated", "us", allocated, gloo, "PyTorch gloo", target, met))
        rows.append(bench.row(f"{ranks} ranks, {name}, any memory", "us", values(ours, "plain", size), gloo, "PyTorch gloo"))
        if not crowded and size == 64 * MIB:
            rows.append(bench.row(
                f"{ranks} ranks, {name}, allocated", "us", allocated, values(ours, "floor", size),
                "memory's floor", "within 1.2 x", lambda a, b: a <= 1.2 * b))
    return rows


def main():
    python = torch_python()
    rows = []
    for ranks in (2, 4):
        ours, peers = [], []
        for _ in range(REPETITIONS):
            ours.append(measure_ours(ranks, SIZES))
            peers.append(measure_peer(python, ranks, SIZES))
        rows += rows_of(ranks, ours, peers)
        create = values(ours, "create", 0)
        rows.append(bench.row(
            f"{ranks} ranks, group creation", "us", create, values(peers, "create", 0), "PyTorch gloo",
            "under 10 ms" if ranks == 2 else "", (lambda a, b: a < 10_000) if ranks == 2 else None))
    create = values([measure_ours(32, []) for _ in range(REPETITIONS)], "create", 0)
    rows.append(bench.row("32 ranks, group creation", "us", create, target="under 100 ms", met=lambda a, b: a < 100_000))
    return bench.finish("allreduce", rows)


if __name__ == "__main__":
    sys.exit(main())
