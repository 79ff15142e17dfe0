#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same command line under torchrun and under ddprun, and what came of it.

  parity.py list                               names of the cases
  parity.py check DDPRUN [CASE...]             ddprun beside the recorded answers of torchrun, each version's
  parity.py warm DDPRUN [CASE...]              the same with --warm=1, in the cases that run Python
  parity.py record VERSION TORCHRUN [CASE...]  asks torchrun again and writes its answers down
  parity.py show LAUNCHER CASE                 what a launcher does, as JSON
"""

import fnmatch
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cases import CASES, EVERYWHERE, NOT_YET

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = os.path.join(HERE, "answers")
# The peer, whose answer to each case is recorded, and another, of which only other answers are.
PEER, SECOND = "2.15", "2.13"
WORKER = os.path.join(HERE, "worker.py")
TIMEOUT_S = 110
MOST_SHOWN = 12
# Names of one thing: which of them a launcher gives to its workers is not compared.
THIS_HOST = {"127.0.0.1", "localhost", "::1", socket.gethostname(), socket.getfqdn()}


def free_port():
    """A port whose successor is free too: a launcher may want both. One that neither the kernel nor
    an agent gives to a caller that asks for any."""
    while True:
        port = random.randrange(10000, 20000, 2)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                pass


class Run:
    """One case under one launcher, in a folder of its own."""

    def __init__(self, case, launcher, own_options=()):
        self.case = case
        self.own_options = list(own_options)
        self.launcher = launcher
        self.is_torchrun = "torchrun" in os.path.basename(launcher)
        self.folder = tempfile.mkdtemp(prefix="parity-")
        self.records = self.make("records")
        self.logs = os.path.join(self.folder, "logs")
        self.port = free_port()
        self.environments = []

    def make(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        return path

    def fill(self, text):
        """Only our own braces: `${rank}` is for the launcher."""
        values = {
            "{worker}": WORKER,
            "{logs}": self.logs,
            "{port}": str(self.port),
            "{tmp}": self.folder,
        }
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    # ---- running ----

    def start(self, node, words):
        own = self.make("node%d" % node)
        environment = {
            "PATH": self.own_path(),
            "HOME": own,
            "TMPDIR": own,
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": HERE,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PARITY_RECORDS": self.records,
        }
        environment.update({k: self.fill(v) for k, v in self.case.environment.items()})
        self.environments.append(environment)
        typed = os.path.join(own, "typed")
        with open(typed, "w") as file:
            file.write("typed\n")
        return subprocess.Popen(
            self.command() + [self.fill(word) for word in words],
            env=environment,
            cwd=own,
            stdin=open(typed),
            stdout=open(os.path.join(own, "stdout"), "wb"),
            stderr=open(os.path.join(own, "stderr"), "wb"),
            start_new_session=True,
        )

    def own_path(self):
        python = self.launcher if self.is_torchrun else sys.executable
        return os.path.dirname(python) + ":/usr/local/bin:/usr/bin:/bin"

    def command(self):
        if self.case.is_legacy and self.is_torchrun:
            python = os.path.join(os.path.dirname(self.launcher), "python")
            return [python, "-m", "torch.distributed.launch"]
        own = ["--compat", "torchrun"] if self.case.is_compat else []
        own += ["--pass-local-rank"] if self.case.is_legacy else []
        own += self.own_options
        return [self.launcher] + ([] if self.is_torchrun else own)

    def run(self):
        try:
            return self.answer(self.run_nodes())
        finally:
            shutil.rmtree(self.folder)

    def run_nodes(self):
        """Exit codes."""
        if self.case.has_log_file:
            with open(self.logs, "w"):
                pass
        nodes = [self.start(i, words) for i, words in enumerate(self.case.nodes)]
        try:
            end = time.monotonic() + TIMEOUT_S
            self.send_signal(nodes, end)
            return [node.wait(max(1, end - time.monotonic())) for node in nodes]
        except subprocess.TimeoutExpired:
            raise SystemExit("%s: still running\n%s" % (self.case.name, self.text("stderr")))
        finally:
            for node in nodes:
                if node.poll() is None:
                    node.kill()
                    node.wait()

    def send_signal(self, nodes, end):
        if not self.case.signal:
            return
        name, worker_count = self.case.signal
        while len(self.names(self.records)) < worker_count:
            if time.monotonic() > end or nodes[0].poll() is not None:
                raise SystemExit("%s: no workers\n%s" % (self.case.name, self.text("stderr")))
            time.sleep(0.02)
        nodes[0].send_signal(getattr(signal, name))

    # ---- what came of it ----

    def names(self, folder):
        return sorted(n for n in os.listdir(folder) if n.endswith(".json"))

    def text(self, stream):
        parts = []
        for node in range(len(self.case.nodes)):
            with open(os.path.join(self.folder, "node%d" % node, stream), errors="replace") as file:
                parts.append(file.read())
        return "".join(parts)

    def answer(self, codes):
        records = []
        for name in self.names(self.records):
            with open(os.path.join(self.records, name)) as file:
                records.append(json.load(file))
        answer = {
            "exit": [self.exit_class(code, bool(records)) for code in codes],
            "stdout": sorted(self.plain(line) for line in self.text("stdout").splitlines()),
            "stderr": sorted(
                self.plain(line)
                for line in self.text("stderr").splitlines()
                if re.search(r"worker: ", line)
            ),
        }
        workers = sorted((self.worker(r) for r in records), key=worker_order)
        answer["every_worker"], answer["workers"] = in_common(workers)
        if self.case.is_compat and any(codes):
            answer["table"] = self.table()
        if "{logs}" in str(self.case.nodes) + str(self.case.environment):
            answer["files"] = self.files()
        parent = self.case.environment.get("TORCHELASTIC_ERROR_FILE")
        if parent:
            answer["error_file"] = self.error_file(self.fill(parent))
        return answer

    def exit_class(self, code, has_workers):
        if self.case.is_compat:
            return str(code)
        if code == 0:
            return "success"
        return "failure" if has_workers else "refused"

    def worker(self, record):
        environment = record["environment"]
        base = self.environments[0]
        changed = {k: v for k, v in environment.items() if base.get(k) != v}
        changed.update({k: "<unset>" for k in base if k not in environment})
        # They differ between nodes, and from run to run.
        for name in ("HOME", "TMPDIR"):
            changed.pop(name, None)
        worker = {
            "command": [self.plain(word) for word in record["command"]],
            "directory": self.plain(record["directory"]),
            "environment": {k: self.variable(k, v) for k, v in sorted(changed.items())},
            "session": record["session"],
        }
        worker.update({k: record[k] for k in ("signal", "stdin") if k in record})
        return worker

    def variable(self, name, value):
        if name == "MASTER_ADDR":
            return "<this host>" if value in THIS_HOST and not self.is_static() else value
        if name == "MASTER_PORT":
            return "<port>" if value == str(self.port) else "<free port>"
        if name == "TORCHELASTIC_RUN_ID":
            return self.run_id(value)
        if name == "TORCHELASTIC_ERROR_FILE" and value and not value.startswith(self.logs):
            return "<error file>"
        if name == "DDPRUN_INCARNATION":
            return "<incarnation>"
        return self.plain(value)

    def is_static(self):
        """The workers' address is the one that was given, letter for letter."""
        return self.case.name.startswith("static_")

    def run_id(self, value):
        return "<random id>" if re.fullmatch(r"[0-9a-f-]{36}|\d{5,}", value) else value

    def plain(self, text):
        """Without what no two runs share."""
        text = re.sub(r"\S*/python[0-9.]*(?=$|\s)", "<python>", text)
        text = text.replace("<host %s>" % socket.gethostname(), "<host>")
        text = re.sub(re.escape(self.logs) + r"/[^/]+_\w+/", "<logs>/<run>/", text)
        for path, name in ((self.logs, "<logs>"), (WORKER, "<worker>")):
            text = text.replace(path, name)
        text = re.sub(re.escape(self.folder) + r"/node\d", "<node>", text)
        return text.replace(self.folder, "<tmp>").replace(str(self.port), "<port>")

    def table(self):
        """What is printed about a failure, without rulers, times and numbers of processes."""
        lines = self.text("stderr").splitlines()
        rulers = [i for i, line in enumerate(lines) if re.fullmatch("={20,}", line)]
        shown = []
        for line in lines[rulers[0] : rulers[-1] + 1] if rulers else []:
            line = re.sub("[-=]{20,}", "<ruler>", line)
            line = re.sub(r"(?<=time      : ).*", "<time>", line)
            line = re.sub(r"(?<=host      : ).*", "<this host>", line)
            line = re.sub(r"(?<=error_file: )/(?!\S*logs/).*", "<error file>", line)
            line = re.sub(r"(pid: |PID )\d+", r"\1<pid>", line)
            shown.append(self.plain(line))
        return shown

    def files(self):
        found = {}
        for folder, _, names in os.walk(self.logs):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, errors="replace") as file:
                    text = file.read()
                shown = self.plain(path)
                if name == "error.json":
                    found[shown] = json.loads(text)
                elif name.startswith("filtered_"):
                    found[shown] = sorted(text.splitlines())
                else:
                    found[shown] = text.splitlines()
        return found

    def error_file(self, path):
        if not os.path.exists(path):
            return "<none>"
        with open(path) as file:
            return json.load(file)


def worker_order(worker):
    environment = worker["environment"]
    keys = ("TORCHELASTIC_RESTART_COUNT", "RANK", "LOCAL_RANK")
    return [int(environment.get(key, 0)) for key in keys]


def in_common(workers):
    """What all of them have, and what is left of each."""
    if not workers:
        return {}, []
    every = {}
    for key, value in list(workers[0].items()):
        if isinstance(value, dict):
            every[key], rests = in_common([w.get(key, {}) for w in workers])
            for worker, rest in zip(workers, rests):
                worker[key] = rest
        elif all(w.get(key) == value for w in workers):
            every[key] = value
            for worker in workers:
                del worker[key]
    return every, workers


# ---- comparing ----


def flat(value, path=""):
    """Every leaf with its path: "workers.1.environment.RANK" -> "1"."""
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, list) and value:
        items = enumerate(value)
    else:
        return {path: value}
    leaves = {}
    for key, part in items:
        leaves.update(flat(part, "%s.%s" % (path, key) if path else str(key)))
    return leaves


ABSENT = "<absent>"


def compare(case, version, theirs, ours):
    """What differs and is not listed, and what is listed and does not differ."""
    theirs, ours = flat(theirs), flat(ours)
    differing = {
        path: (theirs.get(path, ABSENT), ours.get(path, ABSENT))
        for path in sorted(theirs.keys() | ours.keys())
        if theirs.get(path, ABSENT) != ours.get(path, ABSENT)
    }
    wanted = [d for d in case.differences if d.version in (None, version)]
    problems = []
    used = set()
    for path, (their_value, our_value) in differing.items():
        listed = [d for d in wanted + EVERYWHERE if fnmatch.fnmatchcase(path, d.path)]
        used.update(listed)
        if not any(d.ours is None or d.ours == our_value for d in listed):
            problems.append(
                "%s\n    torchrun %s: %s\n    ddprun:        %s"
                % (path, version, json.dumps(their_value), json.dumps(our_value))
            )
    for difference in wanted:
        if difference not in used:
            problems.append("listed, but there is no such difference: " + difference.path)
    return problems


def answer_path(case, version):
    folder = ANSWERS if version == PEER else os.path.join(ANSWERS, version)
    return os.path.join(folder, case.name + ".json")


def recorded(case, version):
    path = answer_path(case, version)
    if version == SECOND and not os.path.exists(path):
        return recorded(case, PEER)
    with open(path) as file:
        return json.load(file)


def record(case, version, launcher):
    answer = Run(case, launcher).run()
    path = answer_path(case, version)
    if version == SECOND and answer == recorded(case, PEER):
        if os.path.exists(path):
            os.remove(path)
    else:
        with open(path, "w") as file:
            json.dump(answer, file, indent=1, sort_keys=True)
            file.write("\n")
    print("recorded", case.name, flush=True)


def runs_python(case):
    """Otherwise --warm is refused: a program, a script from a pipe, no script at all."""
    words = {word for node in case.nodes for word in node}
    is_program = words & {"--no-python", "--no_python"} or "PET_NO_PYTHON" in case.environment
    return not is_program and bool(words & {"{worker}", "worker"})


def check(case, launcher, own_options=()):
    ours = Run(case, launcher, own_options).run()
    problems = []
    for version in (PEER, SECOND):
        for problem in compare(case, version, recorded(case, version), ours):
            if problem not in problems:
                problems.append(problem)
    for problem in problems[:MOST_SHOWN]:
        print("%s: %s" % (case.name, problem), flush=True)
    if len(problems) > MOST_SHOWN:
        print("%s: and %d more" % (case.name, len(problems) - MOST_SHOWN), flush=True)
    if problems and case.name in NOT_YET:
        print("SKIP %s: %s" % (case.name, NOT_YET[case.name]), flush=True)
        return True
    return not problems


def main(words):
    by_name = {case.name: case for case in CASES}
    if words == ["list"]:
        print("\n".join(by_name))
        return 0
    verb = words[0] if words else ""
    version = words.pop(1) if verb == "record" and len(words) > 1 else PEER
    if len(words) < 2 or verb not in ("check", "warm", "record", "show") or version not in (PEER, SECOND):
        print(__doc__, file=sys.stderr)
        return 2
    launcher = os.path.abspath(words[1])
    chosen = [by_name[name] for name in words[2:]] or CASES
    if verb == "show":
        print(json.dumps(Run(chosen[0], launcher).run(), indent=1, sort_keys=True))
        return 0
    if verb == "record":
        for case in chosen:
            record(case, version, launcher)
        return 0
    if verb == "warm":
        chosen = [case for case in chosen if runs_python(case)]
        return 0 if all([check(case, launcher, ["--warm=1"]) for case in chosen]) else 1
    return 0 if all([check(case, launcher) for case in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
