# SPDX-License-Identifier: Apache-2.0
"""The cable between a host and its switch: it can be pulled, lose what goes one way or both, and be a long one."""
import collections
import fcntl
import os
import select
import struct
import subprocess
import threading
import time

from namespace import in_namespace, ip

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LARGEST_FRAME = 65536


def open_tap(namespace, name):
    """A network device there whose frames are read and written here; it is gone when it is closed."""
    def make():
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
        return tap
    return in_namespace(namespace, make)


class Wire:
    """Carries frames between two devices, each delay_s after it came, in their order."""

    def __init__(self, one, other, delay_s):
        self.taps = [open_tap(*one), open_tap(*other)]
        self.delay_s = delay_s
        self.under_way = {tap: collections.deque() for tap in self.taps}  # (due, frame) towards that one
        self.wake, self.end = os.pipe()
        self.carrier = threading.Thread(target=self.carry, daemon=True)
        self.carrier.start()

    def carry(self):
        while True:
            due = [queue[0][0] for queue in self.under_way.values() if queue]
            wait_s = max(0, min(due) - time.monotonic()) if due else None
            ready, _, _ = select.select([*self.taps, self.wake], [], [], wait_s)
            if self.wake in ready:
                return
            for tap in ready:
                self.take_from(tap)
            for tap in self.taps:
                self.deliver_to(tap)

    def take_from(self, tap):
        towards = self.under_way[self.taps[1 - self.taps.index(tap)]]
        try:
            while True:
                towards.append((time.monotonic() + self.delay_s, os.read(tap, LARGEST_FRAME)))
        except OSError:
            pass  # none left, or the device is down

    def deliver_to(self, tap):
        queue = self.under_way[tap]
        while queue and queue[0][0] <= time.monotonic():
            try:
                os.write(tap, queue.popleft()[1])
            except OSError:
                pass  # down: lost, as on any cable

    def remove(self):
        os.close(self.end)
        self.carrier.join()
        for fd in (*self.taps, self.wake):
            os.close(fd)


class Cable:
    """From eth0 of a host's namespace to a port of the switch. What is lost is lost silently; nothing is reset."""

    def __init__(self, namespace, switch, port, delay_s=0):
        self.switch = switch
        self.port = port
        # Where what goes that way comes in.
        self.ends = {"outgoing": (switch, port), "incoming": (namespace, "eth0")}
        self.wire = None
        if delay_s:
            self.wire = Wire((namespace, "eth0"), (switch, port), delay_s)
        else:
            ip("link", "add", "eth0", "netns", namespace, "type", "veth", "peer", "name", port, "netns", switch)
        ip("-n", switch, "link", "set", port, "master", "sw", "up")

    def pull(self):
        ip("-n", self.switch, "link", "set", self.port, "down")

    def plug_in(self):
        ip("-n", self.switch, "link", "set", self.port, "up")

    def lose(self, directions, percent):
        """So many of the frames that go these ways are lost."""
        for namespace, device in (self.ends[direction] for direction in directions):
            verdict = "drop" if percent == 100 else f"numgen random mod 100 < {percent} drop"
            nft(namespace, f"table netdev {device} {{ chain lost {{ type filter hook ingress device {device} priority 0;"
                           f" {verdict}; }}; }}")

    def lose_nothing(self, directions):
        for namespace, device in (self.ends[direction] for direction in directions):
            nft(namespace, f"delete table netdev {device}")

    def remove(self):
        if self.wire:
            self.wire.remove()


def nft(namespace, rules):
    done = subprocess.run(["ip", "netns", "exec", namespace, "nft", "-f", "-"], input=rules, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"nft {rules}: {done.stderr.strip()}")
