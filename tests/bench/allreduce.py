# SPDX-License-Identifier: Apache-2.0
"""all_reduce of float32 between processes of this machine, compared with the limit of the memory
and with PyTorch's gloo. ddprun and the peer take turns; each measurement has a world of its own."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import bench

KIB, MIB = 1024, 1024 * 1024
SIZES = {KIB: "1 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB", 25 * MIB: "25 MiB", 64 * MIB: "64 MiB"}
REPETITIONS = 3


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
            GLOO_SOCKET_IFNAME="lo", **more)
        errors = tempfile.TemporaryFile("w+")
        processes.append((errors, subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)))
    outputs = [process.communicate(timeout=bench.BOUND_S)[0] for _, process in processes]
    for errors, process in processes:
        if process.returncode:
            errors.seek(0)
            raise bench.Failed(f"{pathlib.Path(command[0]).name} {bench.ended_how(process.returncode)}", errors.read())
    lines = [line.split() for line in outputs[0].splitlines()]
    return {(what, int(size)): float(us) for what, size, us in lines}


def measure_ours(ranks, sizes):
    return world([bench.BIN / "allreduce_bench", *map(str, sizes)], ranks, free_port())


def measure_peer(ranks, sizes):
    script = pathlib.Path(__file__).with_name("torch_allreduce.py")
    return world([bench.torch_python(), script, *map(str, sizes)], ranks, free_port())


def values(runs, what, size):
    return [run[what, size] for run in runs if (what, size) in run]


def rows_of(ranks, ours, peer):
    crowded = ranks > os.cpu_count()
    rows = []
    for size, name in SIZES.items():
        allocated = values(ours, "allocated", size)
        gloo = peer.of(lambda run, size=size: run["gloo", size])
        target, met, alone = "", None, False
        if crowded:
            target, met = "no worse than gloo", lambda a, b: a <= b
        elif size == 64 * MIB:
            target, met = "8 x quicker", lambda a, b: a * 8 <= b
        elif size == KIB:
            target, met, alone = "under 3 us", lambda a, b: a < 3, True
        rows.append(bench.row(f"{ranks} ranks, {name}, allocated", "us", allocated, gloo, target, met, alone))
        rows.append(bench.row(f"{ranks} ranks, {name}, any memory", "us", values(ours, "plain", size), gloo))
        if not crowded and size == 64 * MIB:
            floor = bench.beside("memory's floor", values(ours, "floor", size))
            rows.append(bench.row(
                f"{ranks} ranks, {name}, allocated", "us", allocated, floor, "within 1.2 x", lambda a, b: a <= 1.2 * b))
    return rows


def measure_all(rows):
    for ranks in (2, 4):
        bench.progress(f"allreduce: {ranks} ranks")
        peer = bench.torch_peer("PyTorch gloo")
        ours = bench.take_turns(
            REPETITIONS, lambda: measure_ours(ranks, SIZES), (peer, lambda: measure_peer(ranks, SIZES), REPETITIONS))
        rows += rows_of(ranks, ours, peer)
        rows.append(bench.row(
            f"{ranks} ranks, group creation", "us", values(ours, "create", 0), peer.of(lambda run: run["create", 0]),
            "under 10 ms" if ranks == 2 else "", (lambda a, b: a < 10_000) if ranks == 2 else None, alone=True))
    bench.progress("allreduce: 32 ranks")
    create = values([measure_ours(32, []) for _ in range(REPETITIONS)], "create", 0)
    rows.append(bench.row("32 ranks, group creation", "us", create, target="under 100 ms", met=lambda a, b: a < 100_000))


if __name__ == "__main__":
    sys.exit(bench.main("allreduce", measure_all))
