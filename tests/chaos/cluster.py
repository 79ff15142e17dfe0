# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine: network namespaces, each with a cable to a switch, and real programs on them.

Everything of a cluster carries its mark in its environment, so what is left of it can be found. Nothing is made in the
machine's own network namespace. A host is its processes, its cable, its facts (counting_worker.cpp) and its temporary
folder; the folder `saved` is shared by all."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from cable import Cable
from namespace import in_namespace, ip

MARK = "DDPRUN_CHAOS_HOST"
PORT = 29400


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def send_signal(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False  # it was quicker


def wake(pids):
    """Continues them. Returns from when until when they may act past their fence: a keeper that was stopped too wakes with
    its workers, and gets to them after that."""
    woken_at = now_ns()
    for pid in pids:
        send_signal(pid, signal.SIGCONT)
    return woken_at, now_ns() + 3_000_000_000


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # gone; a zombie's is empty


def children_with_sessions(parent, pids):
    """Of these: an agent, and a worker, has a session of its own. What else can be a child for a moment has not:
    LeakSanitizer's helper, without which the process that it looks at never ends."""
    found = []
    for pid in pids:
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(") ", 1)[1].split()
        except (OSError, IndexError):
            continue  # it has ended
        if int(stat[1]) == parent and int(stat[3]) == pid:
            found.append(pid)
    return found


class Fact:
    def __init__(self, host, line):
        words = line.split()
        self.host, self.event, self.incarnation = host, words[0], words[1]
        self.round, self.rank, self.world_size, self.step, self.pid, self.when = map(int, words[2:])
        self.world = (self.incarnation, self.round)

    def __str__(self):
        return f"{self.event} in round {self.round} ({self.incarnation[:8]}), rank {self.rank} on {self.host}, step {self.step}"


class Host:
    def __init__(self, cluster, letter, number, delay_s=0):
        self.cluster = cluster
        self.name = f"node-{letter}"
        self.namespace = f"ddpc{os.getpid()}{letter}"
        self.address = f"10.78.0.{number}"
        self.mark = f"{os.getpid()}-{cluster.number}-{letter}"
        self.folder = cluster.folder / letter
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.facts_file = self.folder / "facts"
        self.log = self.folder / "log"
        self.node = None
        self.known_facts = []
        self.facts_read = 0  # bytes of the file
        self.cable = None
        ip("netns", "add", self.namespace)
        self.cable = Cable(self.namespace, cluster.switch, f"p{letter}", delay_s)
        ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.namespace, "link", "set", "eth0", "up")
        ip("-n", self.namespace, "link", "set", "lo", "up")

    def start(self, *command, log=None):
        """A program on this host; it becomes the process itself, so its pid is the child's."""
        words = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--uts", "sh", "-c",
                 f'echo {self.name} >/proc/sys/kernel/hostname && exec "$@"', "sh", *map(str, command)]
        environment = dict(os.environ, TMPDIR=str(self.temporary), **{MARK: self.mark})
        with open(log or self.log, "ab") as out:
            return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def processes(self):
        """Pids of everything on this host, whatever its parent is by now."""
        wanted = f"{MARK}={self.mark}".encode()
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        return [pid for pid in pids if wanted in environment_of(pid)]

    def keeper(self):
        """The pid of ddprun, None between its lives."""
        return self.node.pid if self.node is not None and self.node.poll() is None else None

    def agent(self):
        """The pid of ddprun's child."""
        keeper = self.keeper()
        return next(iter(children_with_sessions(keeper, self.processes())), None) if keeper else None

    def workers(self):
        agent = self.agent()
        return children_with_sessions(agent, self.processes()) if agent else []

    def freeze(self):
        """Everything on it stops, also what is being forked meanwhile."""
        stopped = set()
        while True:
            running = set(self.processes()) - stopped
            if not running:
                return stopped
            for pid in running:
                send_signal(pid, signal.SIGSTOP)
            stopped |= running

    def lose_power(self):
        """All its processes at once."""
        for pid in self.freeze():
            send_signal(pid, signal.SIGKILL)

    def facts(self):
        if self.facts_file.exists():
            with open(self.facts_file, "rb") as file:
                file.seek(self.facts_read)
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self.known_facts += [Fact(self.name, line) for line in whole.decode("ascii").split("\n")]
                self.facts_read += len(whole) + 1
        return self.known_facts

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def listening(self):
        """Ports with a listener on this host's network."""
        def read():
            found = []
            for table in ("tcp", "tcp6"):
                lines = pathlib.Path(f"/proc/thread-self/net/{table}").read_text(encoding="ascii").splitlines()[1:]
                found += [int(line.split()[1].rsplit(":", 1)[1], 16) for line in lines if line.split()[3] == "0A"]
            return found
        return in_namespace(self.namespace, read)


class Cluster:
    """A switch, a server's host and `letters` hosts, those in `delays` (seconds) with long cables. `with` it: at the end
    nothing of it is left, whatever happened."""
    made = 0

    def __init__(self, build, letters, delays=None):
        Cluster.made += 1
        self.number = Cluster.made
        self.build = pathlib.Path(build)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-chaos-"))
        self.saved = self.folder / "saved"
        self.saved.mkdir()
        self.switch = f"ddpc{os.getpid()}sw"
        self.hosts = {}
        self.server_host = None
        self.server = None
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "sw", "type", "bridge")
            ip("-n", self.switch, "link", "set", "sw", "up")
            self.server_host = Host(self, "s", 1)
            for number, letter in enumerate(letters):
                self.hosts[letter] = Host(self, letter, 2 + number, (delays or {}).get(letter, 0))
            self.endpoint = f"{self.server_host.address}:{PORT}"
        except BaseException:
            self.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def all_hosts(self):
        return [*self.hosts.values(), *([self.server_host] if self.server_host else [])]

    def remove(self):
        for host in self.all_hosts():
            for pid in host.processes():
                send_signal(pid, signal.SIGKILL)
        for host in self.all_hosts():
            if host.node is not None:
                host.node.wait()
            if host.cable is not None:
                host.cable.remove()
            subprocess.run(["ip", "netns", "delete", host.namespace], check=False)
        if self.server is not None:
            self.server.wait()
        subprocess.run(["ip", "netns", "delete", self.switch], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def cut_control_path(self, host):
        """Nothing passes between this host and the server's, silently: each believes the other to be at an address of the
        switch's network that no host has."""
        for one, other in ((host, self.server_host), (self.server_host, host)):
            ip("-n", one.namespace, "neighbour", "replace", other.address, "lladdr", "02:00:00:00:00:01", "dev", "eth0")

    def heal_control_path(self, host):
        for one, other in ((host, self.server_host), (self.server_host, host)):
            ip("-n", one.namespace, "neighbour", "delete", other.address, "dev", "eth0")

    # ---- programs -----------------------------------------------------------------------------------

    def start_server(self):
        self.server = self.server_host.start(
            self.build / "bin/ddprun-rendezvous", f"--port={PORT}", "--log-level=info")
        self.wait_for("a server", lambda: self.status() is not None)

    def kill_server(self):
        self.server.kill()
        self.server.wait()

    def worker(self, host, steps, step_ms, stop_ms):
        return [self.build / "stubs/counting_worker", host.facts_file, self.saved, steps, step_ms, stop_ms]

    def start_node(self, host, options, worker):
        host.node = host.start(
            self.build / "bin/ddprun", "--rdzv-backend=c10d", "--rdzv-id=chaos", f"--rdzv-endpoint={self.endpoint}",
            "--log-level=info", f"--report-file={host.folder}/report", *options, "--no-python", *worker)

    # ---- what can be seen ---------------------------------------------------------------------------

    def status(self):
        """The page /status, or None where no server answers."""
        def read():
            with socket.create_connection((self.server_host.address, PORT), 2) as connection:
                connection.settimeout(2)
                connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while part := connection.recv(65536):
                    answer += part
                return answer
        try:
            return json.loads(in_namespace(self.server_host.namespace, read).split(b"\r\n\r\n", 1)[1])
        except (OSError, IndexError, ValueError):
            return None

    def job(self):
        page = self.status()
        return page["jobs"][-1] if page and page["jobs"] else None

    def facts(self):
        """All facts of all hosts in the order of their stamps."""
        return sorted((fact for host in self.hosts.values() for fact in host.facts()), key=lambda fact: fact.when)

    def wait_for(self, what, is_true, bound_s=60):
        until = time.monotonic() + bound_s
        while True:
            answer = is_true()
            if answer:
                return answer
            if time.monotonic() > until:
                raise Wrong(f"no {what} within {bound_s} s")
            time.sleep(0.02)

    def logs(self, lines=60):
        text = []
        for host in self.all_hosts():
            text.append(f"---- {host.name}, the end of its log")
            text += host.log_text().splitlines()[-lines:]
        return "\n".join(text)


class Wrong(Exception):
    """What should have been true and was not."""
