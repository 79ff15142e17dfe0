# SPDX-License-Identifier: Apache-2.0
"""hosts_test.py BUILD [--timed | --untimed | NAME...]: one command starts a job on many machines, each with a real
sshd. --timed: those parts that measure a time, and so run alone; --untimed: the others."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from machines import DEADLINE_S, Lab, enter_as_first_process, run, search_path, send, why_not

COUNT = 8
HELPERS = ("machine", "command", "run", "begin", "begin_endless", "is_all_gone", "another_program")
TIMED = ("hosts_that_cannot_be_used_are_all_named_and_nothing_begins", "a_range_of_nodes_begins_without_a_dead_host",
         "an_interrupt_while_it_connects", "interrupts_end_it_everywhere_in_under_a_second")
SHOW = 'echo "rank $RANK of $WORLD_SIZE on $(uname -n) node $GROUP_RANK"'


def check(condition, result):
    assert condition, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"


def shown(output):
    """{rank: (world size, machine, node)}"""
    rows = re.findall(r"^rank (\d+) of (\d+) on (\S+) node (\d+)$", output, re.MULTILINE)
    assert len(rows) == len({row[0] for row in rows}), f"a rank was started twice:\n{output}"
    return {int(rank): (int(world), machine, int(node)) for rank, world, machine, node in rows}


class Hosts:
    def __init__(self, lab, ddprun):
        self.lab = lab
        self.ddprun = ddprun
        self.all = ",".join(lab.names())

    def machine(self, number):
        """Beside the machines of every part: added once."""
        added = [machine for machine in self.lab.machines if machine.name == f"m{number}"]
        return added[0] if added else self.lab.add(number)

    def command(self, *options, script=SHOW):
        return [str(self.ddprun), *options, "--no-python", "sh", "-c", script]

    def run(self, *options, script=SHOW, variables=None, folder=None):
        return subprocess.run(self.command(*options, script=script), env={**self.lab.environment, **(variables or {})}, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, cwd=folder, check=False)

    def begin(self, *options, script):
        return subprocess.Popen(self.command(*options, script=script), env=self.lab.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begin_endless(self, name, hosts, *options):
        """A job whose workers have all begun: `sleep` with a time that no other one has."""
        job = self.begin(f"--hosts={hosts}", *options, script=f"exec sleep {name}")
        self.lab.wait_for(lambda: len(self.lab.programs("sleep", name)) == hosts.count(",") + 1, f"workers {name}")
        return job

    def is_all_gone(self, name):
        return not self.lab.processes(f"sleep {name}") and not self.lab.processes("DDPRUN/") and not self.lab.processes("--rdzv-id=hosts-")

    # ---- it runs ------------------------------------------------------------------------------------

    def one_command_is_one_job_and_the_program_is_copied_once(self):
        copies = []
        for _ in range(2):
            result = self.run(f"--hosts={self.all.replace('m2', 'm2:3')}", "-n2")
            check(result.returncode == 0, result)
            wanted = [name for name in self.lab.names() for _ in range(3 if name == "m2" else 2)]
            world = shown(result.stdout)
            check([row[1] for _, row in sorted(world.items())] == wanted and {row[0] for row in world.values()} == {17}, result)
            check([row[2] for _, row in sorted(world.items())] == [int(name[1:]) - 1 for name in wanted], result)
            copies.append([machine.copies() for machine in self.lab.machines[:COUNT]])
            check(all(len(copy) == 1 for copy in copies[-1]), result)
        assert copies[0] == copies[1], "the program was copied again"
        place = next(self.lab.machines[0].cache.glob("ddprun/*"))
        assert place.stat().st_mode & 0o077 == 0 and [file.name for file in place.iterdir()] == ["ddprun"], list(place.iterdir())

    def a_worker_has_this_environment_this_folder_and_no_input(self):
        folder = self.lab.folder / "a folder"
        folder.mkdir()
        result = self.run("--hosts=m1,m2", script='echo "$(pwd)|$MY_NAME|$(cat)|$PET_HOSTS|$DDPRUN_HOSTS_LINK|$HOME|$(which tool)"', folder=folder,
                          variables={"MY_NAME": "it's \"me\"\n$HOME", "PET_MAX_RESTARTS": "0", "HOME": "/elsewhere"})
        tool = self.lab.bin / "tool"
        line = f"{folder}|it's \"me\"\n$HOME||||/root|{tool}"
        check(result.returncode == 0 and result.stdout.count(line) == 2, result)

    def the_interpreter_is_the_one_of_this_environment(self):
        made = self.lab.folder / "venv/bin"
        made.mkdir(parents=True)
        (made.parent / "pyvenv.cfg").write_text("")
        (made / "python").symlink_to(shutil.which("python3"))
        shutil.copy(self.ddprun, made / "ddprun")
        script = self.lab.folder / "where.py"
        script.write_text("import sys; print('python', sys.executable, sys.argv[1:])\n")
        result = subprocess.run([made / "ddprun", "--hosts=m1,m2", script, "--hosts", "x"], env=self.lab.environment, capture_output=True,
                                text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
        check(result.stdout == f"python {made}/python ['--hosts', 'x']\n" * 2, result)

    def a_file_of_hosts_and_an_alias_of_ssh(self):
        file = self.lab.folder / "nodes"
        file.write_text("# of mpirun\nsecond slots=2\nm3:1\n\nm4\nm4\n")
        result = self.run(f"--hostfile={file}")
        check([row[1] for _, row in sorted(shown(result.stdout).items())] == ["m2", "m2", "m3", "m4", "m4"], result)

    def addresses_of_ipv6_and_names_of_users(self):
        result = self.run("--hosts=root@[fd79::1]:2,fd79::2,root@m3")
        check([row[1] for _, row in sorted(shown(result.stdout).items())] == ["m1", "m1", "m2", "m3"], result)

    def all_nodes_get_the_secret_of_this_machine(self):
        home = self.lab.folder / "home"
        home.mkdir()
        open_job = self.run("--hosts=m1,m2")
        check("security.none" in open_job.stderr, open_job)
        result = self.run("--hosts=m1,m2", "--secure", script='echo "secret: $DDPRUN_SECRET."', variables={"HOME": str(home)})
        check(result.stdout == "secret: .\n" * 2 and "security.none" not in result.stderr, result)
        secret = (home / ".config/ddprun/secret").read_text().strip()
        assert secret not in result.stderr
        result = self.run("--hosts=m1,m2", f"--rdzv-secret-file={home}/.config/ddprun/secret")
        check(result.returncode == 0 and "security.none" not in result.stderr, result)
        result = self.run("--hosts=m1,m2", f"--rdzv-secret-file={home}/nothing")
        check(result.returncode == 2 and f"{home}/nothing" in result.stderr, result)

    def this_machine_among_them_needs_no_ssh(self):
        result = self.run("--hosts=login,m1")
        check({row[1] for row in shown(result.stdout).values()} == {"login", "m1"}, result)
        self.lab.write_program("ssh", "exit 77", folder=self.lab.folder)
        result = self.run("--hosts=login", variables={"PATH": f"{self.lab.folder}:{os.environ['PATH']}"})
        check(shown(result.stdout) == {0: (1, "login", 0)}, result)

    def hosts_with_one_home_copy_the_program_at_once(self):
        names = [self.lab.add(number, cache=20).name for number in range(20, 26)]
        for program in (self.ddprun, self.another_program()):
            result = subprocess.run([str(program), f"--hosts={','.join(names)}", "--no-python", "sh", "-c", SHOW], env=self.lab.environment,
                                    capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
            check(result.returncode == 0 and len(shown(result.stdout)) == len(names), result)
        cache = self.lab.machines[-1].cache
        left = sorted(file.name for file in cache.rglob("*") if file.is_file())
        assert left == ["ddprun", "ddprun"], left

    def another_program(self):
        """The same one with another content."""
        other = self.lab.folder / "ddprun-2"
        shutil.copy(self.ddprun, other)
        with open(other, "ab") as file:
            file.write(b"another")
        return other

    def old_copies_are_removed_unless_they_are_used_or_not_ours(self):
        """Beside a new copy the three last used ones stay, and what is in use, or not ours."""
        machine = self.lab.add(19)
        now = time.time()

        def copy(digit, hours, content="#!/bin/sh\n"):
            folder = machine.cache / "ddprun" / (digit * 64)
            folder.mkdir(parents=True)
            for part in (machine.cache / "ddprun", folder):
                part.chmod(0o700)
            (folder / "ddprun").write_text(content)
            (folder / "ddprun").chmod(0o700)
            os.utime(folder, (now - hours * 3600, now - hours * 3600))
            return folder

        for number, digit in enumerate("abc"):
            copy(digit, 2 + number)
        for digit in "01":
            copy(digit, 30)
        running = copy("2", 31)
        shutil.copy(shutil.which("sleep"), running / "ddprun")
        process = subprocess.Popen([running / "ddprun", "4009"])
        locked = open(copy("3", 32) / "ddprun", encoding="utf-8")
        fcntl.flock(locked, fcntl.LOCK_SH)
        (copy("4", 33) / "notes").write_text("mine")
        os.chown(copy("5", 34), 12345, 12345)
        (machine.cache / "ddprun" / ("6" * 64)).symlink_to(copy("7", 35, "linked"))
        (machine.cache / "ddprun" / ("7" * 64)).chmod(0o770)
        copy("8", 0.5)
        (copy("9", 36) / "ddprun").chmod(0o722)
        (machine.cache / "ddprun" / "mine").mkdir()
        for folder in machine.cache.glob("ddprun/[2-9]*"):  # as long ago as before the files were changed
            if folder.name[0] != "8" and not folder.is_symlink():
                os.utime(folder, (now - 40 * 3600, now - 40 * 3600))
        result = self.run("--hosts=m19")
        process.kill()
        process.wait()
        locked.close()
        check(result.returncode == 0, result)
        left = sorted(folder.name[:4] for folder in machine.cache.glob("ddprun/*"))
        wanted = [digit * 4 for digit in "23456789ab"] + ["mine"]
        assert [name for name in left if name in wanted] == sorted(wanted) and len(left) == len(wanted) + 1, left
        # What kept some of them is gone.
        result = self.run("--hosts=m19")
        check(result.returncode == 0, result)
        left = sorted(folder.name[:4] for folder in machine.cache.glob("ddprun/*"))
        assert not {"2222", "3333"} & set(left), left

    def more_hosts_than_connections_at_once(self):
        result = self.run("--hosts=" + ",".join(f"n{i}" for i in range(1, 41)))
        check(result.returncode == 0 and sorted(shown(result.stdout)) == list(range(40)), result)

    def settings_of_ssh_for_terminals_do_not_count(self):
        """An agent is not forwarded, and the input stays open."""
        socket = self.lab.folder / "agent"
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
        self.lab.wait_for(socket.exists, "agent of ssh")
        result = self.run("--hosts=root@odd,m2", script='echo "agent <$SSH_AUTH_SOCK>"', variables={"SSH_AUTH_SOCK": str(socket)})
        agent.kill()
        agent.wait()
        check(result.returncode == 0 and result.stdout == "agent <>\n" * 2, result)

    def what_a_login_exports_starts_no_hosts(self):
        self.lab.add(26, login="PET_HOSTS=m1,m2 PET_NODE_RANK=many program=/bin/false")
        result = self.run("--hosts=m26,m1", script='echo "<$PET_HOSTS$PET_NODE_RANK>"')
        check(result.returncode == 0 and result.stdout == "<>\n" * 2, result)

    def lines_of_the_hosts_are_whole(self):
        result = self.run(f"--hosts={self.all}", script='i=0; while [ $i -lt 300 ]; do printf "<%s" "$RANK"; printf ":%s>\\n" "$i"; i=$((i+1)); done')
        lines = result.stdout.splitlines()
        check(result.returncode == 0 and sorted(lines) == sorted(f"<{rank}:{i}>" for rank in range(COUNT) for i in range(300)), result)

    # ---- it fails -----------------------------------------------------------------------------------

    def a_failed_worker_ends_it_with_one_report(self):
        file = self.lab.folder / "report"
        result = self.run(f"--hosts={self.all}", f"--report-file={file}", script='[ "$RANK" != 5 ] || { echo why >&2; exit 7; }; exec sleep 4001')
        check(result.returncode == 7 and result.stderr.count("job failed: rank 5 on m6: exited with code 7") == 1, result)
        check(result.stderr.count("root cause") == 1 and "ddprun-report" not in result.stderr, result)
        assert json.loads(file.read_text())["root_cause"]["host"] == "m6", file.read_text()
        assert self.is_all_gone("4001")

    def a_wrong_option_is_reported_once(self):
        result = self.run(f"--hosts={self.all}", "--max-restarts=many")
        check(result.returncode == 2 and result.stderr.count("--max-restarts: 'many': accepted are") == 1, result)
        result = self.run("--hosts=m1,m2", "--node-rank=1")
        check(result.returncode == 2 and "the order of the hosts is the order of the nodes" in result.stderr, result)

    def a_node_that_cannot_start_ends_the_others(self):
        """m17 alone has the program: its node would wait for the other one for minutes."""
        tools = self.lab.folder / "only-there"
        tools.mkdir()
        self.lab.write_program("rare", "exec sleep 4002", folder=tools)
        self.lab.add(17, path=f"{tools}:{search_path()}")
        result = subprocess.run([str(self.ddprun), "--hosts=m17,m2", "--no-python", "rare"], env=self.lab.environment, capture_output=True,
                                text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
        check(result.returncode == 127 and result.stderr.count("rare: program not found") == 1, result)

    def hosts_that_cannot_be_used_are_all_named_and_nothing_begins(self):
        """m11 refuses the key, m12 is no machine, m13 does not answer, m14 has another processor."""
        self.lab.add(11, keys="other_keys")
        silent = self.machine(13)
        send(silent.daemon.pid, signal.SIGSTOP)
        tools = self.lab.folder / "tools"
        tools.mkdir()
        self.lab.write_program("uname", 'echo aarch64', folder=tools)
        self.lab.add(14, path=f"{tools}:{search_path()}")
        begun = time.monotonic()
        result = self.run("--hosts=m1,m11,m12,m13,m14,m2", "--connect-timeout=4", script=f"touch {self.lab.folder}/begun")
        took = time.monotonic() - begun
        check(result.returncode == 80 and took < 6, result)
        for name, reason in {"m11": "Permission denied", "m12": "No route to host|no answer within 4 s", "m13": "no answer within 4 s|timed out",
                             "m14": "its processor is aarch64, and this ddprun is for"}.items():
            check(re.search(rf"host.failed name={name} reason=.*({reason})", result.stderr), result)
        check("4 of 6 hosts cannot be used: m11, m12, m13, m14" in result.stderr, result)
        assert not (self.lab.folder / "begun").exists()
        send(silent.daemon.pid, signal.SIGCONT)

    def a_range_of_nodes_begins_without_a_dead_host(self):
        result = self.run("--hosts=m12,m1,m2", "--nnodes=2:3", "--connect-timeout=4", "--rdzv-conf=last_call_timeout=1")
        world = shown(result.stdout)
        check(result.returncode == 0 and sorted(row[1] for row in world.values()) == ["m1", "m2"], result)
        check("host.failed name=m12" in result.stderr, result)

    def a_copy_that_is_cut_off_leaves_nothing(self):
        tools = self.lab.folder / "short"
        tools.mkdir()
        self.lab.write_program("head", f'{shutil.which("head")} "$@" | {shutil.which("head")} -c 1000', folder=tools)
        machine = self.lab.add(16, path=f"{tools}:{search_path()}")
        result = self.run("--hosts=m16")
        check(result.returncode == 80 and "is damaged" in result.stderr, result)
        left = [file for file in machine.cache.rglob("*") if file.is_file()]
        assert not left, left

    def a_full_cache_and_one_without_programs_are_named(self):
        for number, options, reason in ((27, "size=64k", "cannot write .*/copy\\."), (28, "noexec", "cannot execute a program in ")):
            cache = self.lab.folder / f"cache-m{number}"
            cache.mkdir()
            run("mount", "-t", "tmpfs", "-o", options, "tmpfs", cache)
            machine = self.lab.add(number)
            result = self.run(f"--hosts={machine.name}")
            check(result.returncode == 80 and re.search(rf"host.failed name={machine.name} reason=.*{reason}", result.stderr), result)
            left = [file for file in machine.cache.rglob("*") if file.is_file()]
            assert not left, left

    def a_kill_during_the_copy_leaves_no_program(self):
        """The next start copies it."""
        tools = self.lab.folder / "slow"
        tools.mkdir()
        self.lab.write_program("head", f'{shutil.which("head")} -c 1000; echo > "$0.begun"; exec cat >/dev/null', folder=tools)
        machine = self.lab.add(29, path=f"{tools}:{search_path()}")
        job = self.begin("--hosts=m29", script="exec sleep 4008")
        self.lab.wait_for((tools / "head.begun").exists, "begin of the copy")
        job.kill()
        job.communicate(timeout=DEADLINE_S)
        self.lab.wait_for(lambda: not [file for file in machine.cache.rglob("*") if file.is_file()], "end of the copy")
        (tools / "head").unlink()
        result = self.run("--hosts=m29")
        check(result.returncode == 0 and len(machine.copies()) == 1, result)

    # ---- it is stopped ------------------------------------------------------------------------------

    def interrupts_end_it_everywhere_in_under_a_second(self):
        job = self.begin_endless("4003", self.all)
        begun = time.monotonic()
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=DEADLINE_S)
        took = time.monotonic() - begun
        assert job.returncode == 130 and took < 1 and err.count("job was cancelled") == 1, (job.returncode, took, out, err)
        self.lab.wait_for(lambda: self.is_all_gone("4003"), "end of 4003")
        print(f"Ctrl-C to the end of {COUNT} hosts: {took * 1000:.0f} ms")

    def an_interrupt_while_it_connects(self):
        silent = self.machine(13)
        send(silent.daemon.pid, signal.SIGSTOP)
        job = self.begin("--hosts=m1,m13", script="exec sleep 4004")
        self.lab.wait_for(lambda: self.lab.processes("-- m13 sh -s"), "connection")
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=DEADLINE_S)
        send(silent.daemon.pid, signal.SIGCONT)
        assert job.returncode == 130 and "before every host was ready" in err, (job.returncode, err)
        self.lab.wait_for(lambda: not self.lab.processes("-- m13 sh -s"), "end of ssh")

    def a_killed_ddprun_leaves_nothing_behind(self):
        job = self.begin_endless("4005", self.all)
        job.kill()
        job.communicate(timeout=DEADLINE_S)
        self.lab.wait_for(lambda: self.is_all_gone("4005"), "end of 4005")

    def a_connection_that_is_cut_ends_both_sides(self):
        job = self.begin_endless("4006", self.all)
        connection = self.lab.processes("-- m3 sh -s")
        assert len(connection) == 1, connection
        send(connection[0])
        _, err = job.communicate(timeout=DEADLINE_S)
        assert job.returncode == 82 and "the connection to m3 was lost" in err, (job.returncode, err)
        assert err.count("job failed") == 1, err
        self.lab.wait_for(lambda: self.is_all_gone("4006"), "end of 4006")

    def a_killed_node_is_a_lost_node(self):
        job = self.begin_endless("4007", "m1,m2,m3")
        node = self.lab.processes("--node-rank=2")
        assert len(node) == 2, node
        for pid in node:
            send(pid)
        _, err = job.communicate(timeout=DEADLINE_S)
        assert job.returncode == 82 and "the connection to m3 was lost, or ddprun was killed there" in err, (job.returncode, err)
        self.lab.wait_for(lambda: self.is_all_gone("4007"), "end of 4007")


def chosen_parts(words):
    parts = [name for name in vars(Hosts) if not name.startswith("__") and name not in HELPERS]
    assert set(TIMED) <= set(parts), "TIMED names what is no part"
    if words in (["--timed"], ["--untimed"]):
        return [name for name in parts if (name in TIMED) == (words == ["--timed"])]
    if unknown := set(words) - set(parts):
        sys.exit(f"no part of this test: {', '.join(sorted(unknown))}; accepted are --timed alone, --untimed alone, or some of {', '.join(parts)}")
    return [name for name in parts if not words or name in words]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if reason := why_not():
        if os.environ.get("DDPRUN_REQUIRE_ROOT") == "1":
            sys.exit(f"ERROR: may not be skipped here: hosts by ssh: {reason}")
        print(f"SKIP hosts by ssh: {reason}")
        return
    enter_as_first_process()
    with Lab(COUNT) as lab:
        # Without what debuggers need it is a tenth.
        ddprun = lab.folder / "ddprun"
        run("strip", "-o", ddprun, build / "bin/ddprun")
        lab.write_program("tool", "")
        hosts = Hosts(lab, ddprun)
        for name in chosen_parts(sys.argv[2:]):
            begun = time.monotonic()
            getattr(hosts, name)()
            print(f"{time.monotonic() - begun:6.2f} s  {name.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    main()
