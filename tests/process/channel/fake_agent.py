# SPDX-License-Identifier: Apache-2.0
"""An agent that answers one worker: with a page, or with what no agent would send."""
import array
import fcntl
import mmap
import os
import socket
import struct

MAGIC = b"DDPCHAN1"
SIZE = 4096
ASKED, STEP, REPORTED_AT, PHASE, ANSWER, SAVE_POINT, WAIT_ENDS_AT = 8, 9, 10, 11, 13, 24, 25
SHRINK, GROW, SEAL = 2, 4, 1
ADD_SEALS = 1033


class Page:
    def __init__(self, size=SIZE, magic=MAGIC, version=1, seals=SHRINK | GROW | SEAL):
        self.descriptor = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        self.memory = mmap.mmap(self.descriptor, size)
        self.memory[:16] = magic + struct.pack("=II", version, SIZE)
        if seals:
            fcntl.fcntl(self.descriptor, ADD_SEALS, seals)
        self.words = memoryview(self.memory).cast("Q")


class FakeAgent:
    """Listens; `serve` answers the next worker. With it as a context nothing is left open."""

    token = "0123456789abcdef0123456789abcdef"

    def __init__(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.name = f"ddprun-test/{os.getpid()}/{id(self)}"
        self.listener.bind("\0" + self.name)
        self.listener.listen(8)
        self.worker = None

    @property
    def way(self):
        return f"@{self.name}/{self.token}"

    def serve(self, pages, line=b"attached 1\n"):
        """The worker's greeting."""
        self.worker, _ = self.listener.accept()
        greeting = self.worker.makefile("r").readline()
        descriptors = array.array("i", [page.descriptor for page in pages])
        more = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if pages else []
        if line:
            self.worker.sendmsg([line], more)
        return greeting

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        if self.worker:
            self.worker.close()
