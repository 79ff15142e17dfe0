#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record_demo.py BIN SVG: runs the demo in a terminal and draws the recording, docs/demo.svg.
record_demo.py --check SVG...: whether each is well-formed, shows what a demo must show, and nothing of the
machine that it was recorded on.

BIN has ddprun, train_mnist and make_digits. The run is real: a shell on a pseudo-terminal, a worker that is
killed, twice. So that it shows nothing of this machine, it runs in namespaces of its own: the host is called
node1 and processes are counted from 1. Exits with 77 and one line where such namespaces cannot be made.
Times are shortened where nothing happens; the text is what the programs wrote."""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import xml.etree.ElementTree
from xml.sax.saxutils import escape

HOST = "node1"
COLUMNS = 108
BOUND_S = 60
WORKERS, STEPS = 4, 80  # steps of an epoch
JOB = f"ddprun -n {WORKERS} --max-restarts=1 --rdzv-id=mnist train_mnist --data digits --epochs 8 --checkpoint-dir saved"
PROMPT = "$ "
NOTE = "# in another terminal: "

# What a recording shows, in this order.
FACTS = [
    r"^\$ ddprun .*train_mnist",
    r"^epoch 1/8 loss ",
    r"^# in another terminal: kill -KILL \d+",
    r"restart=\"1 of 1\"",
    r"^resumed from step \d+ of round 0: saved/",
    r"^# in another terminal: kill -KILL \d+",
    r"^ddprun: job failed: rank 2 on node1: killed by SIGKILL$",
    r"^  root cause     rank 2 \(local rank 2, pid \d+\) on node1, round 1$",
    r"^  restarts       1 of 1 used$",
    r"^  exit code      137$",
    r"^\$ ddprun .*train_mnist",
    r"^resumed from step \d+ of round 1: saved/",
    r"^epoch 6/8 loss ",
    r"^test accuracy \d+\.\d+ %$",
]

# ---- the run --------------------------------------------------------------------------------------


def enter_namespaces():
    """Starts this program again where the host has another name and no other process is seen."""
    as_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", *as_user, "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run(
            [*unshare, "hostname" if shutil.which("hostname") else "true"], capture_output=True).returncode != 0:
        print("SKIP record_demo.py: namespaces cannot be made here", file=sys.stderr)
        sys.exit(77)
    os.environ["DDPRUN_RECORDING"] = "1"
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def as_seen(text):
    """Without colours and what was erased."""
    text = text.replace("\r\n", "\n")
    return re.sub(r"\x1b\[[0-9;]*m", "", re.sub(r"[^\n]*\r\x1b\[K", "", text))


class Terminal:
    """A shell on a pseudo-terminal, and what appeared there: pairs of seconds and text."""

    def __init__(self, binaries, folder):
        self.shown = []
        self.text = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve("/bin/sh", ["sh", "-i"], {
                "PATH": f"{binaries}:/usr/bin:/bin", "PS1": PROMPT, "TERM": "xterm-256color", "HOME": folder,
                "COLUMNS": str(COLUMNS), "OMP_NUM_THREADS": "1", "TMPDIR": folder, "LC_ALL": "C.UTF-8"})
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))

    def note(self, text):
        self.shown.append((time.monotonic(), text))

    def wait_for(self, pattern):
        """Until the pattern is found in what was not yet searched."""
        until = time.monotonic() + BOUND_S
        while not (found := re.search(pattern, self.text, re.MULTILINE)):
            if not select.select([self.descriptor], [], [], max(0, until - time.monotonic()))[0]:
                sys.exit(f"no {pattern!r} within {BOUND_S} s; since the last step the terminal has shown:\n{self.text}")
            text = os.read(self.descriptor, 65536).decode(errors="replace")
            self.note(text)
            self.text = as_seen(self.text + text)
        self.text = self.text[found.end():]

    def type(self, line):
        os.write(self.descriptor, (line + "\n").encode())


def worker_of_rank(rank):
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "train_mnist\n" and f"RANK={rank}" in (process / "environ").read_text().split("\0"):
                return int(process.name)
        except OSError:  # it has ended
            pass
    sys.exit(f"no worker of rank {rank} is running")


def kill_worker(terminal, folder, rank, step):
    """Once the checkpoint of that step is complete."""
    until = time.monotonic() + BOUND_S
    while not any(int(path.stem.split("-")[-1]) >= step for path in pathlib.Path(folder, "saved").glob("checkpoint-*.ddp")):
        if time.monotonic() > until:
            sys.exit(f"no checkpoint of step {step} within {BOUND_S} s")
        time.sleep(0.01)
    command = f"kill -KILL {worker_of_rank(rank)}"
    terminal.note(NOTE + command)
    subprocess.run(["sh", "-c", command], check=True)


def record(binaries):
    """What the terminal showed while the demo ran."""
    socket.sethostname(HOST)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([binaries / "make_digits", "--out", f"{folder}/digits", "--train", str(STEPS * WORKERS * 64), "--test", "1000"],
                       check=True, stdout=subprocess.DEVNULL)
        os.symlink(binaries / "train_mnist", f"{folder}/train_mnist")
        terminal = Terminal(binaries, folder)
        terminal.wait_for(r"^\$ ")
        terminal.type(JOB)
        terminal.wait_for(r"^epoch 2/8 .*\n")
        kill_worker(terminal, folder, 2, 2 * STEPS)
        terminal.wait_for(r"^epoch 4/8 .*\n")
        kill_worker(terminal, folder, 2, 4 * STEPS)
        terminal.wait_for(r"exit code .*\n\$ ")
        terminal.type(JOB)
        terminal.wait_for(r"^test accuracy .*\n(.*\n)*\$ ")
        terminal.type("exit")
        os.waitpid(terminal.pid, 0)
        return terminal.shown


# ---- the screen -----------------------------------------------------------------------------------


def lines_of(shown):
    """Lines as a terminal shows them in the end: the second in which each began, and its runs of a style and a text."""
    lines, style = [[0.0, []]], ""
    column, rest = 0, ""
    for second, text in shown:
        if text.startswith(NOTE):
            # Not in the middle of what the job is writing.
            lines.insert(len(lines) - 1, [second, [("", text)]])
            continue
        # A sequence may arrive in two parts.
        text, rest = re.fullmatch(r"(.*?)(\x1b(?:\[[0-9;?]*)?)?", rest + text, re.DOTALL).groups("")
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            if piece.startswith("\x1b"):
                if piece.endswith("m"):
                    style = {"0": "", "": ""}.get(piece[2:-1], "bold")
                elif piece.endswith("K") and column == 0:
                    lines[-1][1] = []
            elif piece == "\r":
                column = 0
            elif piece == "\n":
                lines.append([second, []])
                column = 0
            else:
                if not lines[-1][1]:
                    lines[-1][0] = second
                lines[-1][1].append((style, piece))
                column += len(piece)
    return [line for line in lines if line[1]]


def plain(line):
    return "".join(text for _, text in line[1])


def wrapped(lines):
    """Each line cut where the terminal's width ends."""
    rows = []
    for second, runs in lines:
        row, room = [], COLUMNS
        for style, text in runs:
            while text:
                if room == 0:
                    rows.append([second, row])
                    row, room = [], COLUMNS
                row.append((style, text[:room]))
                room, text = room - len(text[:room]), text[room:]
        rows.append([second, row])
    return rows


# ---- the picture ----------------------------------------------------------------------------------

CELL, ROW, SIZE = 7.8, 18, 13
MARGIN, BAR = 16, 30
LONGEST_GAP_S = 1.0
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"


def delays(rows):
    """When each row appears: as it did, but without the long pauses."""
    moments, now, before = [], 0.0, rows[0][0]
    for second, _ in rows:
        now += min(second - before, LONGEST_GAP_S)
        before = second
        moments.append(now)
    return moments


def kind_of(row):
    text = plain(row)
    if text.startswith(PROMPT):
        return "typed"
    if text.startswith(NOTE):
        return "kill"
    return "log" if re.match(r"\d\d:\d\d:\d\d\.\d+ ", text) else ""


def svg(rows):
    width = round(2 * MARGIN + COLUMNS * CELL)
    height = BAR + len(rows) * ROW + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        "<title>A job of four workers: one is killed, the job resumes; one is killed again, the report; the same command resumes</title>",
        "<style>",
        f"text{{font:{SIZE}px {FONT};fill:#e6edf3;white-space:pre;animation:show 1ms linear both}}",
        ".bold{font-weight:bold;fill:#ff7b72}.typed{fill:#7ee787}.kill{fill:#ffa657}.log{fill:#9da7b3}",
        "@keyframes show{from{opacity:0}to{opacity:1}}",
        "@media (prefers-reduced-motion:reduce){text{animation:none}}",
        "</style>",
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="#0d1117" stroke="#6e7681"/>',
        *(f'<circle cx="{MARGIN + 6 + 18 * i}" cy="18" r="5" fill="#6e7681"/>' for i in range(3)),
    ]
    kind = ""
    for number, (row, delay) in enumerate(zip(rows, delays(rows))):
        # A wrapped line is one kind.
        kind = kind_of(row) or (kind if number and row[0] == rows[number - 1][0] and sum(len(t) for _, t in rows[number - 1][1]) == COLUMNS else "")
        column, y = 0, BAR + MARGIN + ROW * number + SIZE
        for style, text in row[1]:
            begin = len(text) - len(text.lstrip(" "))
            if word := text.strip(" "):
                out.append(
                    f'<text x="{MARGIN + CELL * (column + begin):.1f}" y="{y}" textLength="{CELL * len(word):.1f}" lengthAdjust="spacingAndGlyphs"'
                    f' class="{style or kind}" style="animation-delay:{delay:.2f}s" xml:space="preserve">{escape(word)}</text>')
            column += len(text)
    return "\n".join([*out, "</svg>", ""])


# ---- what it must show ----------------------------------------------------------------------------


def text_rows(path):
    """The rows of a picture, joined where they were wrapped."""
    rows = {}
    for element in xml.etree.ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text"):
        column = round((float(element.get("x")) - MARGIN) / CELL)
        y = int(element.get("y"))
        rows[y] = rows.get(y, "").ljust(column) + element.text
    lines = []
    is_full = False
    for _, row in sorted(rows.items()):
        if is_full:
            lines[-1] += row
        else:
            lines.append(row)
        is_full = len(row) == COLUMNS
    return lines


def check(path):
    """What is wrong with a picture, as lines."""
    wrong = []
    try:
        lines = text_rows(path)
    except xml.etree.ElementTree.ParseError as error:
        return [f"{path} is not well-formed: {error}"]
    rest = iter(lines)
    for fact in FACTS:
        if not any(re.search(fact, line) for line in rest):
            wrong.append(f"{path} does not show {fact!r} where it should")
            break
    whole = path.read_text()
    for pattern in (r"<script", r"<image", r"@import", r"url\(", r"href=", r"/tmp\b", r"/root\b", r"/home\b"):
        if re.search(pattern, whole):
            wrong.append(f"{path} has {pattern!r}")
    for word in sorted({place for line in lines for place in re.findall(r"\bon ([\w.-]+)[,:]", line)} - {HOST}):
        wrong.append(f"{path} names a host {word}")
    return wrong


def main(arguments):
    if arguments[:1] == ["--check"]:
        wrong = [line for path in arguments[1:] for line in check(pathlib.Path(path))]
        print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
        return 1 if wrong else 0
    binaries, out = (pathlib.Path(path).resolve() for path in arguments)
    if os.environ.pop("DDPRUN_RECORDING", "") != "1":
        enter_namespaces()
    lines = lines_of(record(binaries))
    # The shell's own words when it is left.
    while plain(lines[-1]).strip() in ("$", "exit", "$ exit"):
        lines.pop()
    out.write_text(svg(wrapped(lines)))
    return main(["--check", str(out)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
