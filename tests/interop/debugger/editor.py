#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An editor's part: editor.py DDPRUN PAGE

Starts the page's command line on a script with a breakpoint line, and attaches to each rank with the
page's launch.json by the Debug Adapter Protocol, which VS Code speaks. Only the ports are others.
"""

import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 90
SCRIPT = """import os
rank = int(os.environ["RANK"])
value = rank + 41
print("end", rank, value, flush=True)
"""
LINE = 4


def free_tens():
    """Two ports N0 and N1 that are free, without their last digit."""
    for tens in range(1100, 1900):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", tens * 10))
                second.bind(("127.0.0.1", tens * 10 + 1))
                return tens
            except OSError:
                pass
    sys.exit("no free ports")


class Editor:
    """One session with the debugger of one rank."""

    def __init__(self, address, deadline):
        while True:
            try:
                self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.stream = self.socket.makefile("rb")
        self.number = 0
        self.kept = []

    def send(self, command, arguments=None):
        self.number += 1
        text = json.dumps(
            {"seq": self.number, "type": "request", "command": command, "arguments": arguments or {}}
        ).encode()
        self.socket.sendall(b"Content-Length: %d\r\n\r\n" % len(text) + text)
        return self.number

    def receive(self):
        size = None
        while line := self.stream.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        if size is None:
            sys.exit("the debugger closed the connection")
        return json.loads(self.stream.read(size))

    def wait_for(self, is_it):
        for message in self.kept:
            if is_it(message):
                self.kept.remove(message)
                return message
        while not is_it(message := self.receive()):
            self.kept.append(message)
        return message

    def event(self, name):
        return self.wait_for(lambda m: m["type"] == "event" and m["event"] == name).get("body", {})

    def answer(self, number):
        message = self.wait_for(lambda m: m["type"] == "response" and m["request_seq"] == number)
        if not message["success"]:
            sys.exit("refused: %s" % message)
        return message.get("body", {})

    def ask(self, command, arguments=None):
        return self.answer(self.send(command, arguments))


def debug(configuration, deadline, script):
    """Stops at the line, looks at a value, and continues."""
    connect = configuration["connect"]
    editor = Editor((connect["host"], connect["port"]), deadline)
    editor.ask("initialize", {"clientID": "test", "adapterID": configuration["type"], "pathFormat": "path"})
    attached = editor.send(configuration["request"], configuration)
    editor.event("initialized")
    editor.ask("setBreakpoints", {"source": {"path": script}, "breakpoints": [{"line": LINE}]})
    editor.ask("configurationDone")
    editor.answer(attached)
    thread = editor.event("stopped")["threadId"]
    frame = editor.ask("stackTrace", {"threadId": thread})["stackFrames"][0]
    value = editor.ask("evaluate", {"expression": "value", "frameId": frame["id"]})["result"]
    editor.ask("continue", {"threadId": thread})
    return frame["line"], value


def main():
    ddprun, page = sys.argv[1:]
    frameworks = os.environ.get("DDPRUN_FRAMEWORKS_PYTHON")
    if importlib.util.find_spec("debugpy") is None and frameworks and frameworks != sys.executable:
        os.execv(frameworks, [frameworks, "-B"] + sys.argv)
    if importlib.util.find_spec("debugpy") is None:
        print("SKIP debugger: no debugpy for " + sys.executable)
        return
    with open(page, encoding="utf-8") as file:
        text = file.read()
    block = re.search(r"<!-- launch.json:begin -->\n```json\n(.*?)```", text, re.S)
    command = re.search(r"^ddprun .* -m debugpy .*$", text, re.M)
    if not block or not command:
        sys.exit("no launch.json or no command in " + page)
    tens = free_tens()
    launch = json.loads(block[1].replace("567", str(tens)))
    names = launch["compounds"][0]["configurations"]
    by_name = {one["name"]: one for one in launch["configurations"]}
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        words = shlex.split(command[0].replace("567", str(tens)).replace("train.py", script))
        job = subprocess.Popen(
            [ddprun, "--python=" + sys.executable] + words[1:], stdout=subprocess.PIPE, text=True
        )
        try:
            deadline = time.monotonic() + TIMEOUT_S
            seen = [debug(by_name[name], deadline, script) for name in names]
            out, _ = job.communicate(timeout=TIMEOUT_S)
        finally:
            job.kill()
    expected = [(LINE, "41"), (LINE, "42")]
    if seen != expected or sorted(out.split("\n")) != ["", "end 0 41", "end 1 42"] or job.returncode:
        sys.exit("saw %s, printed %r, exit code %s" % (seen, out, job.returncode))
    print("ok")


if __name__ == "__main__":
    main()
