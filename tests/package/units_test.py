# SPDX-License-Identifier: Apache-2.0
"""units_test.py BUILD CMAKE: installs the programs and tries what the units and the Containerfile say: systemd's own
judgement of the units, and the service's command line under systemd-socket-activate, in a network namespace of its own.
"""
import configparser
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

DEADLINE_S = 60
PROGRAMS = ["systemd-analyze", "systemd-socket-activate", "unshare", "ip"]
# systemd-analyze's scale goes to 100 ("unsafe"); what the hardening leaves is mostly the network itself.
MOST_EXPOSURE = 20
VALIDATE_AND_PING = b"\x00\xce\xf7\x85\x3c\x0d\x01\x02\x03\x04"
PONG = b"\x01\x02\x03\x04"


def namespace():
    """The beginning of a command line that runs where it has a network of its own."""
    return ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def why_not():
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed"
    made = subprocess.run([*namespace(), "true"], capture_output=True, check=False)
    return "" if made.returncode == 0 else "no network namespace can be made here"


class Client:
    def __init__(self, host):
        self.socket = socket.create_connection((host, 29400), DEADLINE_S)

    def say(self, data):
        self.socket.sendall(data)
        return self

    def hear(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, f"the end after {data!r}"
            data += part
        return data

    def hear_to_the_end(self):
        data = b""
        while part := self.socket.recv(65536):  # a reset raises
            data += part
        return data


def in_c10d(text):
    return struct.pack("<Q", len(text)) + text


def wait_for(key):
    return b"\x06" + struct.pack("<Q", 1) + in_c10d(key)


class Units:
    def __init__(self, folder):
        self.files = {kind: folder / f"lib/systemd/system/ddprun-rendezvous.{kind}" for kind in ("service", "socket")}
        self.entries = {}
        for kind, file in self.files.items():
            parser = configparser.ConfigParser(strict=False, interpolation=None)
            parser.optionxform = str
            parser.read_string(file.read_text())
            self.entries[kind] = parser
        self.command = self.entries["service"]["Service"]["ExecStart"].split()
        self.listen = self.entries["socket"]["Socket"]["ListenStream"]

    def name_what_is_installed(self, folder):
        assert self.command[0] == str(folder / "bin/ddprun-rendezvous"), self.command
        assert os.access(self.command[0], os.X_OK)
        usage = subprocess.run([self.command[0], "--help"], capture_output=True, text=True, check=True).stdout
        assert re.search(rf"--port .*\b{self.listen}\b", usage), usage

    def are_valid(self):
        files = [str(file) for file in self.files.values()]
        result = subprocess.run(["systemd-analyze", "verify", "--man=no", *files],
                                capture_output=True, text=True, check=False)
        # It reports unknown settings, but does not fail for them.
        assert result.returncode == 0 and not result.stdout + result.stderr, result.stdout + result.stderr

    def are_hardened(self):
        result = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                                 f"--threshold={MOST_EXPOSURE}", str(self.files["service"])],
                                capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


class Activated:
    """The service's command under systemd-socket-activate, with a manager's socket for notifications."""

    def __init__(self, units, folder):
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.settimeout(DEADLINE_S)
        self.manager.bind(str(folder / "notify"))
        self.process = subprocess.Popen(
            ["systemd-socket-activate", f"--listen={units.listen}", f"--setenv=NOTIFY_SOCKET={folder}/notify",
             *units.command], stderr=subprocess.PIPE)
        line = self.process.stderr.readline()
        assert b"Listening on" in line, line

    def notified(self):
        return self.manager.recv(100)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.notified() == b"STOPPING=1"


def serves_all_kinds_of_callers_at_once(units, folder):
    activated = Activated(units, folder)
    # The first caller starts the service, and is served by it.
    scanner = Client("127.0.0.1").say(b"\xff\xfe no protocol of this port \r\n\r\n")
    assert activated.notified() == b"READY=1"
    writer = Client("127.0.0.1").say(VALIDATE_AND_PING)
    waiter = Client("::1").say(VALIDATE_AND_PING)
    agent = Client("::1").say(b"DDPRUN/1\n")
    assert writer.hear(4) == waiter.hear(4) == PONG
    scanners = [Client("127.0.0.1").say(os.urandom(64).replace(b"\x00", b"\xff")) for _ in range(20)]
    writer.say(b"\x01" + in_c10d(b"/key") + in_c10d(b"value"))
    waiter.say(wait_for(b"/key") + b"\x03" + in_c10d(b"/key"))
    page = Client("::1").say(b"GET /healthz HTTP/1.1\r\n\r\n").hear_to_the_end()
    assert page.startswith(b"HTTP/1.1 200 OK\r\n") and page.endswith(b"ok\n"), page
    assert waiter.hear(14) == b"\x00" + in_c10d(b"value")
    for each in [scanner, *scanners]:
        assert each.hear_to_the_end() == b""
    waiter.say(wait_for(b"a key that never comes"))
    greeting = agent.hear(4)
    agent.hear(struct.unpack(">I", greeting)[0])
    with_pytorch(writer)

    activated.end()
    for each in [writer, waiter, agent]:
        assert each.hear_to_the_end() == b""
        each.socket.close()
    log = activated.process.communicate(timeout=DEADLINE_S)[1]
    assert activated.process.returncode == 0, log
    assert re.search(rb"rendezvous\.listening port=29400 inherited=1", log), log
    activated.manager.close()


def with_pytorch(writer):
    """What a rank of PyTorch writes, another client reads, and the reverse. PyTorch puts a slash before its keys."""
    python = os.environ.get("DDPRUN_TORCH_PYTHON")
    if not python:
        return
    subprocess.run([python, "-c", "from torch.distributed import TCPStore\n"
                                  "store = TCPStore('localhost', 29400, is_master=False)\n"
                                  "assert store.get('key') == b'value'\n"
                                  "store.set('from torch', 'here')"], check=True, timeout=DEADLINE_S)
    writer.say(b"\x03" + in_c10d(b"/from torch"))
    assert writer.hear(12) == in_c10d(b"here")


def callers_wait_while_the_service_restarts(units):
    """The socket stays with the manager: no caller is refused between two servers."""
    listening = socket.create_server(("127.0.0.1", 29400))
    command = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", *units.command]

    def start():
        server = subprocess.Popen(command, stderr=subprocess.PIPE, close_fds=False,
                                  preexec_fn=lambda: (os.dup2(listening.fileno(), 3), os.set_inheritable(3, True)))
        assert b"rendezvous.listening port=29400 inherited=1" in server.stderr.readline()
        return server

    def end(server):
        server.send_signal(signal.SIGTERM)
        log = server.communicate(timeout=DEADLINE_S)[1]
        assert server.returncode == 0, log

    first = start()
    store = Client("127.0.0.1").say(VALIDATE_AND_PING)
    assert store.hear(4) == PONG
    first.send_signal(signal.SIGTERM)
    assert store.hear_to_the_end() == b""
    # The first server accepts no more. It has not ended while this client is there.
    between = Client("127.0.0.1").say(VALIDATE_AND_PING)
    store.socket.close()
    end(first)
    second = start()
    assert between.hear(4) == PONG
    end(second)


def serve(folder):
    """In the namespace."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    units = Units(folder / "usr")
    serves_all_kinds_of_callers_at_once(units, folder)
    callers_wait_while_the_service_restarts(units)


def main():
    if sys.argv[1] == "--serve":
        serve(pathlib.Path(sys.argv[2]))
        return
    build, cmake = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([cmake, "--install", build, "--component", "programs", "--prefix", folder / "usr"],
                       stdout=subprocess.DEVNULL, check=True)
        units = Units(folder / "usr")
        units.name_what_is_installed(folder / "usr")
        subprocess.run([pathlib.Path(__file__).parent / "image_test.sh", folder / "usr"], check=True)
        if reason := why_not():
            if os.environ.get("DDPRUN_REQUIRE_SYSTEMD") == "1":
                sys.exit(f"DDPRUN_REQUIRE_SYSTEMD=1, but {reason}")
            print(f"SKIP systemd's part of the daemon's units: {reason}")
            return
        units.are_valid()
        units.are_hardened()
        subprocess.run([*namespace(), sys.executable, __file__, "--serve", name], check=True)


if __name__ == "__main__":
    main()
