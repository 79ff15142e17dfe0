# SPDX-License-Identifier: Apache-2.0
"""The store server compared with its peers: the same load generator for all, one after the other.

PyTorch's server gets the same bytes. Redis gets its own SET and GET of the same key and value, and the raw
server (store_raw.cpp) the bytes of GET, which it answers without reading them: what is left is the kernel's.
Ours and the peer take turns within each repetition, and which one goes first changes, so that what
else the machine does falls on both. Medians. CPU time is that of the whole server process.
"""
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import bench

CASES = ["get", "set", "add", "append", "check", "wait_and_wake", "multi_get", "multi_set", "batch_of_sets"]
CONNECTIONS = [1, 8, 64, 512]
REPETITIONS = 5
SECONDS = 0.4
# The difference between two medians of the same server on a busy machine of two cores.
TOLERANCE = 0.05
WANTED = f"never worse (within {TOLERANCE:.0%})"
REDIS_CONNECTIONS = [1, 50]
RAW_CONNECTIONS = [64, 512]
# The least acceptable share of the operations of a server that reads nothing.
RAW_SHARE = 0.9
# A client that streams small SETs has a turn of 64 KiB; a round of as many turns as there are streams
# is what another client waits for.
STREAMS = {1: 1.0, 16: 17.0}
OURS = (bench.BIN / "store_bench_server",)
IDLE_CONNECTIONS = 800
IDLE_BYTES = 1536
# Clients in all, and at a time.
STORMS = [(1_000, 1_000), (10_000, 10_000), (19_000, 19_000), (98_304, 16_384)]
BIGGEST_STORM_S = 10
BARRIER_CLIENTS = 16_000
BARRIER_MS = 250
WAITERS = 10_000
WAKE_RATIO = 1.2
STORM_REPETITIONS = 3


def descriptors_wanted():
    """Both ends of the biggest wave are on this machine, each in a process of its own."""
    return max(wave for _, wave in STORMS) + 100


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Server:
    """A server process that prints its port and ends with its standard input."""

    def __init__(self, *command):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            preexec_fn=raise_descriptor_limit)
        line = self.process.stdout.readline().strip()
        if not line:
            self.errors.seek(0)
            raise bench.Failed(f"{pathlib.Path(command[0]).name} printed no port", self.errors.read())
        self.port = line

    def measure(self, case, connections):
        """(operations per second, CPU microseconds per operation), and for the cases that say so other figures"""
        return self.figures("store_bench", case, connections, SECONDS)

    def figures(self, program, *arguments):
        done = bench.run([bench.BIN / program, self.port, str(self.process.pid), *map(str, arguments)])
        return [float(figure) for figure in done.stdout.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(bench.BOUND_S)


class Redis(Server):
    def __init__(self):
        program = shutil.which("redis-server")
        if not program:
            raise FileNotFoundError("redis-server")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.process = subprocess.Popen(
            [program, "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + bench.PEER_BOUND_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(self.port))).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise bench.Failed("redis-server does not answer", "") from None
                time.sleep(0.01)

    def close(self):
        self.process.terminate()
        self.process.wait(bench.BOUND_S)


def take_turns(repetitions, ours, peer, theirs):
    """Samples of ours; the peer's are in `peer`."""
    samples = []
    for repetition in range(repetitions):
        turn = [lambda: samples.append(ours()), lambda: peer.take(theirs)]
        for take in turn if repetition % 2 == 0 else reversed(turn):
            take()
    return samples


def repeat(ours, server, peer, case, connections, peer_case=""):
    return take_turns(
        REPETITIONS, lambda: ours.measure(case, connections),
        peer, lambda: server.measure(peer_case or case, connections))


def plural(connections):
    return f"{connections} connection{'s' if connections > 1 else ''}"


def idle_bytes():
    """Measured with a separate server: one that has done other things would use their memory
    again."""
    server = Server(*OURS)
    try:
        return server.measure("idle", IDLE_CONNECTIONS)[0]
    finally:
        server.close()


def measure_cases(rows, ours, start, server):
    for case in CASES:
        for connections in CONNECTIONS:
            name = f"{case}, {plural(connections)}"
            bench.progress(f"store: {name}")
            peer = bench.Peer(start.name, start.error)
            mine = repeat(ours, server, peer, case, connections)
            rows.append(bench.row(
                name, "op/s", [rate for rate, _ in mine], peer.of(lambda sample: sample[0]), WANTED,
                lambda a, b: a >= b * (1 - TOLERANCE)))
            rows.append(bench.row(
                name, "server us/op", [cpu for _, cpu in mine], peer.of(lambda sample: sample[1]), WANTED,
                lambda a, b: a <= b * (1 + TOLERANCE)))


def measure_redis(rows, ours):
    start = bench.Peer("Redis")
    server = start.attempt(Redis, keep=True)
    for case in ("get", "set"):
        for connections in REDIS_CONNECTIONS:
            name = f"{case}, {plural(connections)}"
            bench.progress(f"store: {name} of Redis")
            peer = bench.Peer(start.name, start.error)
            mine = repeat(ours, server, peer, case, connections, f"redis_{case}")
            rows.append(bench.row(
                name, "op/s", [rate for rate, _ in mine], peer.of(lambda sample: sample[0]), WANTED,
                lambda a, b: a >= b * (1 - TOLERANCE)))
    if server:
        start.attempt(server.close)


def measure_raw(rows, ours):
    start = bench.Peer("epoll, recv, send")
    server = start.attempt(Server, bench.BIN / "store_raw", "raw_get", keep=True)
    for connections in RAW_CONNECTIONS:
        name = f"get, {plural(connections)}"
        bench.progress(f"store: {name} of the raw server")
        peer = bench.Peer(start.name, start.error)
        mine = repeat(ours, server, peer, "get", connections, "raw_get")
        rows.append(bench.row(
            name, "op/s", [rate for rate, _ in mine], peer.of(lambda sample: sample[0]), f">= {RAW_SHARE:g}x",
            lambda a, b: a >= b * RAW_SHARE))
    if server:
        start.attempt(server.close)


def measure_streams(rows, ours, start, server):
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


def once(kind, *arguments):
    """Measured with a fresh server: it has no keys or counters yet, and no port of an earlier storm
    is in use."""
    server = Server(*kind)
    try:
        return server.figures("store_storm", *arguments)
    finally:
        server.close()


def measure_storms(rows, torch):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < descriptors_wanted():
        bench.progress(f"store: no storms: they need {descriptors_wanted()} descriptors, the limit is {hard}")
        return
    start = bench.torch_peer("TCPStore (libuv)", bench.BOUND_S)
    for clients, wave in STORMS:
        name = f"{clients:,} clients join" + (f", {wave:,} at a time" if wave < clients else "")
        bench.progress(f"store: {name}")
        peer = bench.Peer(start.name, start.error, bench.BOUND_S)
        mine = take_turns(
            STORM_REPETITIONS, lambda: once(OURS, "storm", clients, wave),
            peer, lambda: once(torch, "storm", clients, wave))
        is_biggest = (clients, wave) == STORMS[-1]
        rows.append(bench.row(
            name, "s", [seconds for seconds, _ in mine], peer.of(lambda sample: sample[0]),
            f"<= {BIGGEST_STORM_S}" if is_biggest else "",
            (lambda a, _: a <= BIGGEST_STORM_S) if is_biggest else None, alone=True))
        rows.append(bench.row(
            name, "server us/client", [cpu for _, cpu in mine], peer.of(lambda sample: sample[1]), WANTED,
            lambda a, b: a <= b * (1 + TOLERANCE)))
    name = f"barrier of {BARRIER_CLIENTS:,} clients"
    bench.progress(f"store: {name}")
    peer = bench.Peer(start.name, start.error, bench.BOUND_S)
    mine = take_turns(
        STORM_REPETITIONS, lambda: once(OURS, "barrier", BARRIER_CLIENTS, 0),
        peer, lambda: once(torch, "barrier", BARRIER_CLIENTS, 0))
    rows.append(bench.row(
        name, "ms", [took for took, in mine], peer.of(lambda sample: sample[0]), f"<= {BARRIER_MS}",
        lambda a, _: a <= BARRIER_MS, alone=True))
    name = f"one key wakes {WAITERS:,} clients"
    bench.progress(f"store: {name}")
    mine = [once(OURS, "wake", WAITERS, 0) for _ in range(STORM_REPETITIONS)]
    rows.append(bench.row(
        name, "ms", [took for took, _ in mine],
        bench.beside("send to each", [sends for _, sends in mine]), f"<= {WAKE_RATIO:g}x",
        lambda a, b: a <= b * WAKE_RATIO))


def measure_all(rows):
    ours = Server(*OURS)
    torch = (bench.torch_python(), bench.ROOT / "tests" / "interop" / "torch_server.py")
    start = bench.torch_peer("TCPStore (libuv)")
    server = start.attempt(Server, *torch, keep=True)
    measure_cases(rows, ours, start, server)
    measure_streams(rows, ours, start, server)
    if server:
        start.attempt(server.close)
    measure_redis(rows, ours)
    measure_raw(rows, ours)
    ours.close()
    measure_storms(rows, torch)
    rows.append(bench.row(
        "idle connection", "bytes", [idle_bytes()], target=f"<= {IDLE_BYTES}", met=lambda a, _: a <= IDLE_BYTES))


if __name__ == "__main__":
    sys.exit(bench.main("store", measure_all))
