# SPDX-License-Identifier: Apache-2.0
"""The time from a worker's death, at a random moment, to the last new worker's main."""
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import bench

REPETITIONS = 15
TORCHRUN_REPETITIONS = 5
LONGEST_LIFE_US = 300_000
# Without this variable the second torchrun of a machine waits for a store that the first one does
# not serve.
TWO_AGENTS_ON_A_MACHINE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def started_again(file, count):
    return file.exists() and len(second_lives(file)[1]) >= count


def second_lives(file):
    """(when the worker died, when each worker began after that)"""
    lines = file.read_text().splitlines(keepends=True)
    seen = [line.split() for line in lines if line.endswith("\n")]
    died = [int(when) for event, _, when in seen if event == "died"][:1]
    # A launcher that does not count restarts for the whole job starts second lives as first ones.
    return died, [int(when) for event, _, when in seen if died and event.startswith("begun") and int(when) > died[0]]


def duration_ms(file, count):
    died, begun = second_lives(file)
    if len(begun) != count:
        raise bench.Failed(f"{len(begun)} of {count} workers were started again")
    return (max(begun) - died[0]) / 1e6


def restart_ms(commands, folder, count, has_job_wide_count=True):
    """`commands` are the agents' command lines without the worker; they run side by side. Where
    each agent counts its own restarts, the workers of the other agents begin their second life like
    a first one and never end: they are ended here."""
    file = pathlib.Path(folder) / "notes"
    file.unlink(missing_ok=True)
    life = str(random.randint(50_000, LONGEST_LIFE_US))
    agents = [
        subprocess.Popen(
            [*command, bench.BIN / "bench_worker", file, "die", life],
            env=dict(os.environ, **TWO_AGENTS_ON_A_MACHINE), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for command in commands
    ]
    until = time.monotonic() + bench.BOUND_S
    while not started_again(file, count) and any(agent.poll() is None for agent in agents) and time.monotonic() < until:
        time.sleep(0.01)
    if not has_job_wide_count and started_again(file, count):
        for agent in agents:
            agent.terminate()
            agent.communicate(timeout=bench.BOUND_S)
        return duration_ms(file, count)
    for agent in agents:
        errors = agent.communicate(timeout=bench.BOUND_S)[1]
        if agent.returncode != 0:
            raise bench.Failed(f"{pathlib.Path(agent.args[0]).name} {bench.ended_how(agent.returncode)}", errors.decode(errors="replace"))
    return duration_ms(file, count)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def one_node(program, *extra):
    return lambda: [[program, *extra, "--nproc-per-node=2", "--max-restarts=1", "--no-python"]]


def two_nodes(program):
    def commands():
        endpoint = f"127.0.0.1:{free_port()}"
        return [[
            program, "--nnodes=2", "--nproc-per-node=2", "--max-restarts=1", "--rdzv-backend=c10d", "--rdzv-id=bench",
            f"--rdzv-endpoint={endpoint}", "--no-python",
        ]] * 2
    return commands


def measure_all(rows):
    ddprun, torchrun = bench.BIN / "ddprun", bench.torchrun()
    with bench.scratch() as folder:
        def timed(commands, count, **more):
            return lambda: restart_ms(commands(), folder, count, **more)

        c10d, static = bench.torch_peer("torchrun c10d"), bench.torch_peer("torchrun static")
        bench.progress("restart: one node")
        ours = bench.take_turns(
            REPETITIONS, timed(one_node(ddprun, "--standalone"), 2),
            (c10d, timed(one_node(torchrun, "--standalone"), 2), TORCHRUN_REPETITIONS),
            (static, timed(lambda: one_node(torchrun, "--master-port", str(free_port()))(), 2), TORCHRUN_REPETITIONS))
        rows.append(bench.row("one node", "ms", ours, c10d, "under 5 ms", lambda ms, _: ms < 5, alone=True))
        rows.append(bench.row("one node", "ms", ours, static))
        bench.progress("restart: two nodes")
        c10d = bench.torch_peer("torchrun c10d")
        ours = bench.take_turns(
            REPETITIONS, timed(two_nodes(ddprun), 4), (c10d, timed(two_nodes(torchrun), 4, has_job_wide_count=False), TORCHRUN_REPETITIONS))
        rows.append(bench.row("two nodes", "ms", ours, c10d, "under 20 ms", lambda ms, _: ms < 20, alone=True))


if __name__ == "__main__":
    sys.exit(bench.main("restart", measure_all))
