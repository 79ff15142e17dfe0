#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_clients.py BUILD SECONDS: clients that attack the store of a ddprun-rendezvous, one kind after the other,
while another client asks for a small value again and again. Prints what the server held and how long that client
waited, and fails where either is more than the bound beside it. With 20 s the attacks are small; from 600 s on they
are those that made a server hold gigabytes."""
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

MEBI = 1 << 20
# docs/store-bounds.md: data, clients, one request or reply, the coordinator.
DOCUMENTED = (1024 + 1024 + 256 + 256) * MEBI
# What the program itself and the allocator keep besides; a debug build is bigger.
OWN = 64 * MEBI
# The other client waits for one turn of each attacker; so much longer it may be on a machine with fewer CPUs than
# busy processes.
FACTOR = 10
BOUND_S = 60
TURN_BYTES = 64 * 1024
STREAMS = 16

SET, GET, WAIT, APPEND, MULTI_GET, PING, QUEUE_PUSH = 1, 3, 6, 9, 10, 13, 14
PONG = struct.pack("<I", 7)
PING_BYTES = bytes([PING]) + PONG


def text(data):
    return struct.pack("<Q", len(data)) + data


def request(opcode, *fields):
    return bytes([opcode]) + b"".join(text(field) for field in fields)


def keys_request(opcode, keys):
    return bytes([opcode]) + struct.pack("<Q", len(keys)) + b"".join(text(key) for key in keys)


def hear(connection, size):
    heard = b""
    while len(heard) < size:
        more = connection.recv(size - len(heard))
        if not more:
            raise ConnectionError("closed by the server")
        heard += more
    return heard


def ask(connection, data, size):
    connection.sendall(data)
    return hear(connection, size)


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), BOUND_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask(connection, b"\0" + struct.pack("<I", 0x3C85F7CE) + PING_BYTES, 4)
    return connection


class Daemon:
    def __init__(self, build):
        self.process = subprocess.Popen(
            [pathlib.Path(build) / "bin" / "ddprun-rendezvous", "--host", "127.0.0.1", "--port", "0"],
            stderr=subprocess.PIPE, text=True)
        self.log = []
        while True:
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit(f"the daemon did not start: {''.join(self.log)}")
            self.log.append(line)
            if port := re.search(r"rendezvous.listening port=(\d+)", line):
                self.port = int(port[1])
                break
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()

    def most_bytes(self):
        """What it held when it held most."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def metric(self, name):
        # A page does without a store that is busy just then.
        until = time.monotonic() + BOUND_S
        while not (found := self.find_on_page(name)):
            if time.monotonic() > until:
                raise SystemExit(f"no {name} on the page of metrics")
        return int(float(found[1]))

    def find_on_page(self, name):
        with socket.create_connection(("127.0.0.1", self.port), BOUND_S) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            page = b""
            while more := connection.recv(65536):
                page += more
        return re.search(rf"\n{name} (\S+)", page.decode())

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(BOUND_S)
        self.reader.join(BOUND_S)
        return code


# One function for each attack: with its connection it goes on until the server closes it or the process is ended.

def unread(connection, data):
    """Sends the request again and again and reads no reply."""
    while True:
        connection.sendall(data)


def appended(connection, size, number):
    if number == 0:
        # Each time anew: what unread replies show is kept besides.
        while True:
            connection.sendall(request(SET, b"/big", b""))
            for _ in range(size["append_blocks"]):
                connection.sendall(request(APPEND, b"/big", bytes(8 * MEBI)))
            ask(connection, PING_BYTES, 4)
    ask(connection, keys_request(WAIT, [b"/big"]), 1)
    connection.sendall(request(GET, b"/big") * 12)
    time.sleep(1)  # so long it reads nothing, and then goes


def multi_gets(connection, size, number):
    connection.sendall(request(SET, b"/small", bytes(1000)) + request(SET, b"/shared", bytes(8 * MEBI)))
    keys = [b"/shared"] * 16 if number % 2 == 0 else [b"/small"] * size["keys"]
    unread(connection, keys_request(MULTI_GET, keys))


def waits(connection, size, number):
    connection.sendall(keys_request(WAIT, [b"/%d/%d" % (number, i) for i in range(size["keys"])]))
    connection.settimeout(None)
    hear(connection, 1)


def queues(connection, size, number):
    first = number * size["queues"]
    for start in range(first, first + size["queues"], 1000):
        connection.sendall(b"".join(request(QUEUE_PUSH, b"/q%d" % i, b"") for i in range(start, start + 1000)))
    ask(connection, PING_BYTES, 4)
    connection.settimeout(None)
    hear(connection, 1)


def tiny_sets():
    return b"".join(request(SET, b"/%d" % (100 + i), b"v") for i in range(TURN_BYTES // 22))


def stream(connection, size, number):
    unread(connection, tiny_sets())


ATTACKS = {
    "a big value that grows, and GETs of it that are not read": (appended, 7),
    "MULTI_GETs that are not read": (multi_gets, 8),
    "waits for many keys": (waits, 20),
    "queues": (queues, 4),
    f"{STREAMS} streams of tiny SETs": (stream, STREAMS),
}
SMALL = {"append_blocks": 8, "keys": 16 * 1024, "queues": 25_000}
BIG = {"append_blocks": 40, "keys": 128 * 1024, "queues": 250_000}


def attacker(attack, port, size, number):
    """In a process of its own, so that it delays the measuring one by nothing but its use of the CPU."""
    pid = os.fork()
    if pid > 0:
        return pid
    code = 1
    try:
        while True:
            try:
                attack(connect(port), size, number)
            except (ConnectionError, TimeoutError):
                time.sleep(0.01)  # closed; once more
    except BaseException as error:  # pylint: disable=broad-except
        print(f"{attack.__name__}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def end(attackers):
    while attackers:
        pid = attackers.pop()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def percentile(sorted_samples, share):
    return sorted_samples[int(share * (len(sorted_samples) - 1))]


def delays(connection, seconds):
    """In seconds, sorted: how long a client waits for a small value."""
    question = request(GET, b"/healthy")
    samples = []
    until = time.monotonic() + seconds
    while time.monotonic() < until or not samples:
        start = time.monotonic()
        if ask(connection, question, 9)[-1:] != b"v":
            raise SystemExit("the other client got a wrong value")
        samples.append(time.monotonic() - start)
    return sorted(samples)


def turn_seconds(port):
    """How long the server takes for one turn of tiny SETs."""
    with connect(port) as connection:
        samples = []
        for _ in range(20):
            start = time.monotonic()
            ask(connection, tiny_sets() + PING_BYTES, 4)
            samples.append(time.monotonic() - start)
    return sorted(samples)[10]


def run(build, name, seconds, size):
    """True if the bounds hold."""
    attack, count = ATTACKS[name]
    daemon = Daemon(build)
    attackers = []
    try:
        healthy = connect(daemon.port)
        healthy.sendall(request(SET, b"/healthy", b"v"))
        turn = turn_seconds(daemon.port)
        attackers = [attacker(attack, daemon.port, size, number) for number in range(count)]
        samples = delays(healthy, seconds)
        end(attackers)
        refused = daemon.metric("ddprun_store_refused_total")
        held = daemon.most_bytes()
    finally:
        end(attackers)
        code = daemon.end()
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    most_delay = FACTOR * (count + 1) * turn
    complaints = sum("store.closed_connection" in line for line in daemon.log)
    print(f"{name}: held {held / MEBI:.0f} MiB (bound {(DOCUMENTED + OWN) / MEBI:.0f}); another client waited "
          f"{p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms (bound {most_delay * 1e3:.0f}: {FACTOR} times a turn of "
          f"{turn * 1e3:.2f} ms of each of {count + 1}); {refused} closed, {complaints} logged", flush=True)
    wrong = [
        fact for fact, holds in {
            "it held too much": held <= DOCUMENTED + OWN,
            "the other client waited too long": p99 <= most_delay,
            # All attackers have one address.
            "more than one line for one address": complaints <= 1,
            f"the daemon ended with {code}": code == 0,
        }.items() if not holds]
    for fact in wrong:
        print(f"FAILED {name}: {fact}\n{''.join(daemon.log[-5:])}", flush=True)
    return not wrong


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    build, seconds = sys.argv[1], float(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = BIG if seconds >= 600 else SMALL
    # Each attack runs, whatever the others have found.
    results = [run(build, name, seconds / len(ATTACKS), size) for name in ATTACKS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
