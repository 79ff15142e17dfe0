# SPDX-License-Identifier: Apache-2.0
"""The store server beside PyTorch's: the same bytes from the same load generator, one after the other.

Ours and the peer take turns within each repetition, and which one goes first changes, so that what
else the machine does falls on both. Medians. CPU time is that of the whole server process.
"""
import os
import pathlib
import subprocess
import sys

import bench

CASES = ["get", "set", "add", "check", "wait_and_wake", "multi_get"]
CONNECTIONS = [1, 8, 64]
REPETITIONS = 7
SECONDS = 0.6
# What two medians of the same server differ by on a busy machine of two cores.
TOLERANCE = 0.05
WANTED = f"never worse (within {TOLERANCE:.0%})"


def torch_python():
    bench.torchrun()  # says why, if there is none
    python = os.environ.get("DDPRUN_TORCH_PYTHON", str(bench.ROOT / "build" / "torch-venv" / "bin" / "python"))
    return python if (pathlib.Path(python).parent / "torchrun").exists() else None


class Server:
    """A server process that prints its port and ends with its standard input."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline().strip()
        if not line:
            sys.exit(f"{command[0]} printed no port")
        self.port = line

    def measure(self, case, connections):
        """(operations per second, CPU microseconds per operation)"""
        done = bench.run(
            [bench.BIN / "store_bench", self.port, str(self.process.pid), case, str(connections), str(SECONDS)])
        rate, cpu = done.stdout.split()
        return float(rate), float(cpu)

    def close(self):
        self.process.stdin.close()
        self.process.wait(bench.BOUND_S)


def repeat(ours, peer, case, connections):
    samples = {ours: [], peer: []}
    for repetition in range(REPETITIONS):
        turn = [ours, peer] if repetition % 2 == 0 else [peer, ours]
        for server in turn:
            if server is not None:
                samples[server].append(server.measure(case, connections))
    return samples[ours], samples[peer]


def main():
    python = torch_python()
    ours = Server(bench.BIN / "store_bench_server")
    peer = Server(python, bench.ROOT / "tests" / "interop" / "torch_server.py") if python else None
    rows = []
    for case in CASES:
        for connections in CONNECTIONS:
            mine, theirs = repeat(ours, peer, case, connections)
            name = f"{case}, {connections} connection{'s' if connections > 1 else ''}"
            rows.append(bench.row(
                name, "op/s", [rate for rate, _ in mine], [rate for rate, _ in theirs], "TCPStore (libuv)",
                WANTED, (lambda a, b: a >= b * (1 - TOLERANCE)) if peer else None))
            rows.append(bench.row(
                name, "server us/op", [cpu for _, cpu in mine], [cpu for _, cpu in theirs], "TCPStore (libuv)",
                WANTED, (lambda a, b: a <= b * (1 + TOLERANCE)) if peer else None))
    ours.close()
    if peer:
        peer.close()
    return bench.finish("store", rows)


if __name__ == "__main__":
    sys.exit(main())
