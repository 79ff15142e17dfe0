# SPDX-License-Identifier: Apache-2.0
"""From a worker's death, at a random moment, to the last new worker's main."""
import pathlib
import random
import socket
import subprocess
import sys

import bench

REPETITIONS = 15
TORCHRUN_REPETITIONS = 5
LONGEST_LIFE_US = 300_000


def restart_ms(commands, folder, count):
    """`commands` are the agents' command lines without the worker; they run side by side."""
    file = pathlib.Path(folder) / "notes"
    file.unlink(missing_ok=True)
    life = str(random.randint(50_000, LONGEST_LIFE_US))
    agents = [
        subprocess.Popen(
            [*command, bench.BIN / "bench_worker", file, "die", life],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for command in commands
    ]
    for agent in agents:
        errors = agent.communicate(timeout=bench.BOUND_S)[1]
        if agent.returncode != 0:
            sys.exit(f"{agent.args[0]} returned {agent.returncode}:\n{errors.decode(errors='replace')}")
    seen = bench.notes(file)
    died = [when for event, _, when in seen if event == "died"]
    # A launcher whose count of restarts is not job-wide starts second lives as first ones.
    begun = [when for event, _, when in seen if event.startswith("begun") and when > died[0]]
    if len(begun) != count:
        sys.exit(f"{len(begun)} of {count} workers were started again")
    return (max(begun) - died[0]) / 1e6


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


def main():
    ddprun, torchrun = bench.BIN / "ddprun", bench.torchrun()
    rows = []
    with bench.scratch() as folder:
        one = [restart_ms(one_node(ddprun, "--standalone")(), folder, 2) for _ in range(REPETITIONS)]
        two = [restart_ms(two_nodes(ddprun)(), folder, 4) for _ in range(REPETITIONS)]
        rows.append(bench.row("one node", "ms", one, target="under 5 ms", met=lambda ms, _: ms < 5))
        rows.append(bench.row("two nodes", "ms", two, target="under 20 ms", met=lambda ms, _: ms < 20))
        if torchrun:
            peer = [restart_ms(one_node(torchrun, "--standalone")(), folder, 2) for _ in range(TORCHRUN_REPETITIONS)]
            rows.append(bench.row("one node", "ms", one, peer, "torchrun c10d"))
            static = [
                restart_ms(one_node(torchrun, "--master-port", str(free_port()))(), folder, 2)
                for _ in range(TORCHRUN_REPETITIONS)
            ]
            rows.append(bench.row("one node", "ms", one, static, "torchrun static"))
            peer = [restart_ms(two_nodes(torchrun)(), folder, 4) for _ in range(TORCHRUN_REPETITIONS)]
            rows.append(bench.row("two nodes", "ms", two, peer, "torchrun c10d"))
    return bench.finish("restart", rows)


if __name__ == "__main__":
    sys.exit(main())
