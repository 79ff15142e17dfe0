# SPDX-License-Identifier: Apache-2.0
"""Ends the calls of PyTorch's groups from another thread."""
import contextlib
import os
import select
import socket
import stat
import threading


class Sockets:
    """The TCP sockets that PyTorch has opened for groups and their store, by inode. Gloo has no call that ends a
    collective: on the loss of one rank only its neighbours get an error, and the others would wait for the group's
    timeout. After shutdown(2) on the sockets all calls of this process fail at once."""

    def __init__(self):
        self._lock = threading.Lock()
        self._of_groups = set()
        self._of_default_group = set()
        self._blocks = 0  # in which groups are being made
        self._before = frozenset()  # the sockets that were there before the first of these blocks

    @contextlib.contextmanager
    def opening(self, is_default=False):
        """The sockets that appear in this block are PyTorch's. `is_default`: those of the default group."""
        with self._lock:
            if self._blocks == 0:
                self._before = _open_sockets().keys()
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                new = _open_sockets().keys() - self._before
                self._of_groups |= new
                if is_default:
                    self._of_default_group |= new

    def shut(self):
        with self._lock:
            for inode, descriptor in _open_sockets().items():
                if inode in self._of_groups or self._blocks > 0 and inode not in self._before:
                    _shut(descriptor, inode)

    def forget(self):
        with self._lock:
            self._of_groups.clear()
            self._of_default_group.clear()

    def have_lost_peer(self):
        """A connection of the default group is broken: Gloo closes its end then."""
        with self._lock:
            there = _open_sockets()
            if not self._of_default_group <= there.keys():
                return True
            poll = select.poll()
            for inode in self._of_default_group:
                poll.register(there[inode], select.POLLRDHUP)
            return bool(poll.poll(0))


def _open_sockets():
    """{inode: descriptor}"""
    found = {}
    with contextlib.suppress(OSError):  # a process without free descriptors cannot look
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                status = os.fstat(int(name))
                if stat.S_ISSOCK(status.st_mode):
                    found[status.st_ino] = int(name)
    return found


def _shut(descriptor, inode):
    with contextlib.suppress(OSError):
        copy = os.dup(descriptor)
        # Another thread may have closed the first one, and the number may be another socket's now.
        if os.fstat(copy).st_ino != inode:
            os.close(copy)
            return
        with socket.socket(fileno=copy) as one:
            is_stream = one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
            # Gloo ends the process when its listening socket fails.
            if is_stream and not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                one.shutdown(socket.SHUT_RDWR)
