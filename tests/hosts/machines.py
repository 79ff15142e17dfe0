# SPDX-License-Identifier: Apache-2.0
"""Machines on this machine: network namespaces, each with a real sshd, an address and a name, on one switch.

Everything lives in namespaces of the program that makes it: nothing of /etc is touched, and no port of this machine is
used. That program itself is the machine `login`."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 60
PROGRAMS = {"ip": "iproute2", "sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
# Its routes confirm at once: otherwise each step of a login waits 40 ms for a delayed confirmation.
NETWORK = "10.79.0.0/24"
MARK = "DDPRUN_TEST_IN_MACHINES"

# The usual exchange of keys costs each end 65 ms of a processor, and there are some 160 connections.
SSHD = """KexAlgorithms curve25519-sha256
ListenAddress {address}
ListenAddress {address6}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/{keys}
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
SetEnv XDG_CACHE_HOME={cache} PATH={path} {login}
"""

SSH = """Host second
    HostName {second}
Host odd
    HostName m1
    HostKeyAlias m1
    ForwardAgent yes
    StdinNull yes
    ForkAfterAuthentication yes
    SessionType none
{more}Host *
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
"""


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def why_not():
    """Empty where machines can be made, else the reason for a skip."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=search_path()) is None:
            return f"{program} (package {package}) is missing"
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], stderr=subprocess.PIPE, text=True, check=False)
    return f"no namespace can be made here: {tried.stderr.strip()}" if tried.returncode != 0 else ""


def enter_namespace(*more):
    """Runs this program again in its own namespaces. Requires root."""
    if os.environ.get(MARK) == "1":
        return
    os.environ[MARK] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", "--uts", *more, sys.executable, "-B", *sys.argv])


def enter_as_first_process():
    """The same, and all that is started ends with this program."""
    enter_namespace("--pid", "--fork", "--kill-child", "--mount-proc")


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


class Machine:
    """`cache`: the number of the machine whose home it has. `login`: variables that its login exports."""

    def __init__(self, lab, number, keys="authorized_keys", path="", cache=None, login=""):
        self.lab = lab
        self.name = f"m{number}"
        self.address = f"10.79.0.{number}"
        self.address6 = f"fd79::{number}"
        self.cache = lab.folder / f"cache-m{cache or number}"
        self.log = lab.folder / f"sshd-{self.name}.log"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", f"v{number}", "master", "br0", "up")
        for words in ("link set lo up", "link set eth0 up", f"address add {self.address}/24 dev eth0",
                      f"address add {self.address6}/64 dev eth0 nodad", f"route change {NETWORK} dev eth0 quickack 1"):
            run("ip", "-n", self.name, *words.split())
        config = lab.folder / f"sshd-{self.name}"
        config.write_text(SSHD.format(address=self.address, address6=self.address6, folder=lab.folder, keys=keys, cache=self.cache, path=path or search_path(), login=login))
        with open(self.log, "ab") as log:
            self.daemon = subprocess.Popen(
                ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", 'echo "$1" >/proc/sys/kernel/hostname; exec "$2" -D -e -f "$3"',
                 "sh", self.name, shutil.which("sshd", path=search_path()), str(config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_listening(self):
        return self.log.read_text().count("Server listening") == 2

    def copies(self):
        """(hash, inode) of each program in its cache."""
        return {(file.parent.name, file.stat().st_ino) for file in self.cache.glob("ddprun/*/ddprun")}


class Lab:
    """Requires: enter_namespace() was called. `count` machines m1, m2 ..., and one more that refuses the key."""

    def __init__(self, count):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-machines-"))
        self.count = count
        self.make_place()
        for key in ("host_key", "user_key", "other_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        shutil.copy(self.folder / "other_key.pub", self.folder / "other_keys")
        self.write_names()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.write_program("ssh", f'exec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"')
        self.machines = [Machine(self, number + 1) for number in range(count)]
        for machine in self.machines:
            self.wait_for(machine.is_listening, f"sshd of {machine.name}")
        self.environment = dict(os.environ, PATH=f"{self.bin}:{search_path()}", TMPDIR=str(self.folder))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for machine in self.machines:
            machine.daemon.kill()
            machine.daemon.wait()
        # Some caches are small file systems of their own.
        for cache in self.folder.glob("cache-*"):
            if cache.is_mount():
                run("umount", "--lazy", cache)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_place(self):
        run("hostname", "login")
        # sshd wants /run/sshd, and `ip netns` a /run that it can share.
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        os.mkdir("/run/sshd", 0o755)
        for words in ("link set lo up", "link add br0 type bridge", "link set br0 up", "address add 10.79.0.200/24 dev br0",
                      "address add fd79::200/64 dev br0 nodad", f"route change {NETWORK} dev br0 quickack 1"):
            run("ip", *words.split())
        # A machine that is not there is known to be missing soon.
        pathlib.Path("/proc/sys/net/ipv4/neigh/br0/retrans_time_ms").write_text("200")
        # Each connection is a login, and what this user's does is not the test's.
        bashrc = pathlib.Path.home() / ".bashrc"
        if bashrc.exists():
            run("mount", "--bind", "/dev/null", bashrc)

    def write_names(self):
        hosts = self.folder / "hosts"
        names = [f"10.79.0.{number} m{number}" for number in range(1, 30)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", "10.79.0.200 login", *names]) + "\n")
        run("mount", "--bind", hosts, "/etc/hosts")
        run("mount", "--bind", "/dev/null", "/etc/resolv.conf")
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text("".join(f"m{number},fd79::{number} {key}" for number in range(1, 30)))
        (self.folder / "ssh_config").write_text(SSH.format(folder=self.folder, second="m2", more=self.aliases()))

    def aliases(self):
        """n1 to n40: more names than connections are made at once."""
        return "".join(f"Host n{i}\n    HostName m{i % self.count + 1}\n    HostKeyAlias m{i % self.count + 1}\n" for i in range(1, 41))

    def write_program(self, name, text, folder=None):
        file = (folder or self.bin) / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def add(self, number, **more):
        machine = Machine(self, number, **more)
        self.machines.append(machine)
        self.wait_for(machine.is_listening, f"sshd of {machine.name}")
        return machine

    def names(self, count=None):
        return [machine.name for machine in self.machines[:count or self.count]]

    def wait_for(self, is_so, what):
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError(f"no {what} within {DEADLINE_S} s")
            time.sleep(0.01)

    def processes(self, text):
        """Ids of the processes, on any machine, that have this in their command line."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and text.encode() in (folder / "cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(int(folder.name))
            except OSError:
                continue  # gone
        return [pid for pid in found if pid != os.getpid()]


    def programs(self, *command):
        """Ids of the processes that are this command and nothing more."""
        return [pid for pid in self.processes(command[0]) if command_of(pid) == list(command)]


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
    except OSError:
        return []


def send(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
