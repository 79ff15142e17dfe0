# SPDX-License-Identifier: Apache-2.0
"""The store server beside PyTorch's: the same bytes from the same load generator, one after the other.

Ours and the peer take turns within each repetition, and which one goes first changes, so that what
else the machine does falls on both. Medians. CPU time is that of the whole server process.
"""
import pathlib
import subprocess
import sys
import tempfile

import bench

CASES = ["get", "set", "add", "append", "check", "wait_and_wake", "multi_get", "multi_set", "batch_of_sets"]
CONNECTIONS = [1, 8, 64]
REPETITIONS = 5
SECONDS = 0.4
# What two medians of the same server differ by on a busy machine of two cores.
TOLERANCE = 0.05
WANTED = f"never worse (within {TOLERANCE:.0%})"
# A client that streams small SETs has a turn of 64 KiB; a round of as many turns as there are streams
# is what another client waits for.
STREAMS = {1: 1.0, 16: 17.0}
OURS = (bench.BIN / "store_bench_server",)
IDLE_CONNECTIONS = 800
IDLE_BYTES = 1536


class Server:
    """A server process that prints its port and ends with its standard input."""

    def __init__(self, *command):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        line = self.process.stdout.readline().strip()
        if not line:
            self.errors.seek(0)
            raise bench.Failed(f"{pathlib.Path(command[0]).name} printed no port", self.errors.read())
        self.port = line

    def measure(self, case, connections):
        """(operations per second, CPU microseconds per operation), and for the cases that say so other figures"""
        done = bench.run(
            [bench.BIN / "store_bench", self.port, str(self.process.pid), case, str(connections), str(SECONDS)])
        return [float(figure) for figure in done.stdout.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(bench.BOUND_S)


def repeat(ours, server, peer, case, connections):
    samples = []
    for repetition in range(REPETITIONS):
        turn = [lambda: samples.append(ours.measure(case, connections)),
                lambda: peer.take(lambda: server.measure(case, connections))]
        for take in turn if repetition % 2 == 0 else reversed(turn):
            take()
    return samples


def idle_bytes():
    """Of a server of its own: one that has done other things would use their memory again."""
    server = Server(*OURS)
    try:
        return server.measure("idle", IDLE_CONNECTIONS)[0]
    finally:
        server.close()


def measure_all(rows):
    ours = Server(*OURS)
    start = bench.torch_peer("TCPStore (libuv)")
    server = start.attempt(Server, bench.torch_python(), bench.ROOT / "tests" / "interop" / "torch_server.py", keep=True)
    for case in CASES:
        for connections in CONNECTIONS:
            name = f"{case}, {connections} connection{'s' if connections > 1 else ''}"
            bench.progress(f"store: {name}")
            peer = bench.Peer(start.name, start.error)
            mine = repeat(ours, server, peer, case, connections)
            rows.append(bench.row(
                name, "op/s", [rate for rate, _ in mine], peer.of(lambda sample: sample[0]), WANTED,
                lambda a, b: a >= b * (1 - TOLERANCE)))
            rows.append(bench.row(
                name, "server us/op", [cpu for _, cpu in mine], peer.of(lambda sample: sample[1]), WANTED,
                lambda a, b: a <= b * (1 + TOLERANCE)))
    for streams, most_ms in STREAMS.items():
        name = f"another client while {streams} stream{'s' if streams == 1 else ''}"
        bench.progress(f"store: {name}")
        peer = bench.Peer(start.name, start.error)
        mine = repeat(ours, server, peer, "beside_stream", streams)
        rows.append(bench.row(
            name, "p50 ms", [p50 for p50, _, _ in mine], peer.of(lambda sample: sample[0]), f"<= {most_ms:g}",
            lambda a, _: a <= most_ms, alone=True))
        rows.append(bench.row(name, "p99 ms", [p99 for _, p99, _ in mine], peer.of(lambda sample: sample[1])))
        rows.append(bench.row(
            name, "streamed op/s", [rate for _, _, rate in mine], peer.of(lambda sample: sample[2])))
    rows.append(bench.row(
        "idle connection", "bytes", [idle_bytes()], target=f"<= {IDLE_BYTES}", met=lambda a, _: a <= IDLE_BYTES))
    ours.close()
    if server:
        start.attempt(server.close)


if __name__ == "__main__":
    sys.exit(bench.main("store", measure_all))
