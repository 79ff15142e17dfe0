#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The worker of every parity case: writes down what it was given, then does what its arguments say.

Each argument "[CONDITION:]...VERB[=VALUE]" is a step, in order; any other is only written down.
Conditions are "r1" (RANK is 1) and "a0" (TORCHELASTIC_RESTART_COUNT is 0); all must hold.
"""

import json
import os
import re
import signal
import sys
import time

FOLDER = os.environ["PARITY_RECORDS"]
WAIT_S = 60
record = {
    "command": sys.orig_argv,
    "directory": os.getcwd(),
    "environment": dict(os.environ),
    "session": "own" if os.getsid(0) == os.getpid() else "shared",
}


def write_record():
    """Whole or not at all: a reader that counts records must not read half of one."""
    path = os.path.join(FOLDER, "%d.json" % os.getpid())
    with open(path + ".new", "w") as file:
        json.dump(record, file)
    os.rename(path + ".new", path)


def until(condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            sys.exit("worker: waited in vain")
        time.sleep(0.01)


def others(count):
    """Until so many, this one with them, have come as far as here: what stands before is done."""
    with open(os.path.join(FOLDER, "here.%d" % os.getpid()), "w"):
        pass
    until(lambda: len([n for n in os.listdir(FOLDER) if n.startswith("here.")]) >= count)


def wait(_):
    """Until a signal comes: its handler ends the process."""
    until(lambda: False)


def on_signal(number, _):
    record["signal"] = signal.Signals(number).name
    write_record()
    os._exit(0)


STOPPERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def become_mortal(_):
    """From here on a signal ends this process; the others are notified."""
    for number in STOPPERS:
        signal.signal(number, signal.SIG_DFL)
    with open(os.path.join(FOLDER, "mortal.%d" % os.getpid()), "w"):
        pass


def mortals(count):
    until(lambda: len([n for n in os.listdir(FOLDER) if n.startswith("mortal.")]) >= count)


def say(stream):
    def print_line(text):
        # In one piece: lines of several workers must not meet in the middle.
        os.write(stream.fileno(), ("worker: " + text + "\n").encode())

    return print_line


def write_error(form):
    text = {
        "usual": {
            "message": {
                "message": "ValueError: no such layer",
                "extraInfo": {"py_callstack": "Traceback: line 7", "timestamp": "1700000000"},
            }
        },
        "plain": {"message": "out of layers", "timestamp": 1700000000},
        "number": {
            "message": {
                "message": "ValueError: no such layer",
                "extraInfo": {"py_callstack": "Traceback: line 7", "timestamp": 1700000000},
            }
        },
    }[form]
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump(text, file)


def read_line(_):
    record["stdin"] = sys.stdin.readline()
    write_record()


STEPS = {
    "say": say(sys.stdout),
    "err": say(sys.stderr),
    "exit": lambda code: sys.exit(int(code)),
    "kill": lambda name: os.kill(os.getpid(), getattr(signal, name)),
    "others": lambda count: others(int(count)),
    "wait": wait,
    "mortal": become_mortal,
    "mortals": lambda count: mortals(int(count)),
    "error": write_error,
    "read": read_line,
}


def main():
    for number in STOPPERS:
        signal.signal(number, on_signal)
    write_record()
    place = {
        "r" + os.environ.get("RANK", ""),
        "a" + os.environ.get("TORCHELASTIC_RESTART_COUNT", ""),
    }
    for argument in sys.argv[1:]:
        match = re.fullmatch(r"((?:[ra]\d+:)*)(\w+)(?:=(.*))?", argument)
        if not match or match[2] not in STEPS:
            continue
        if set(match[1].split(":")) - {""} <= place:
            STEPS[match[2]](match[3])


main()
