# SPDX-License-Identifier: Apache-2.0
"""python -m ddprun.shim PROGRAM [ARGUMENT]...
python -m ddprun.shim -m MODULE [ARGUMENT]...

Runs a program of this Python environment, as in `python -m ddprun.shim accelerate launch train.py`. Where it calls
torch.distributed.run, this process becomes ddprun with the same options. docs/frameworks.md has the details."""
import importlib.metadata
import os
import runpy
import shutil
import signal
import sys
import sysconfig

USAGE = "usage: python -m ddprun.shim PROGRAM [ARGUMENT]... | -m MODULE [ARGUMENT]..."


def find_ddprun():
    """The program of this environment's wheel, else the one on PATH."""
    try:
        for file in importlib.metadata.files("ddprun") or []:
            if file.name == "ddprun" and os.access(file.locate(), os.X_OK):
                return str(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass
    return shutil.which("ddprun") or sys.exit("ddprun.shim: no ddprun in this environment or on PATH")


def words_of(parsed, parser):
    """The command line that `parser` has read as `parsed`: what differs from the defaults, PET_ variables
    included, which ddprun reads too."""
    words = []
    for action in parser._actions:
        value = getattr(parsed, action.dest, action.default)
        if not action.option_strings or value is None or str(value) == str(action.default):
            continue
        name = next(option for option in action.option_strings if option.startswith("--"))
        if action.nargs != 0:
            words.append(f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}")
        elif int(value):
            words.append(name)
    # A torchrun without a node rank is node 0 on every node. ddprun would warn about that, or take
    # any rank.
    if str(parsed.nnodes) not in ("1", "1:1") and parsed.rdzv_backend == "static":
        words = [word for word in words if not word.startswith("--node-rank=")]
        words += ["--rdzv-backend=static", f"--node-rank={parsed.node_rank}"]
    # torch.distributed.launch has this option in addition to run's.
    if not getattr(parsed, "use_env", True):
        words.append("--pass-local-rank")
    return words + ["--", parsed.training_script, *parsed.training_script_args]


def become_ddprun(words):
    # torchrun's workers run with its own Python.
    python = [] if os.environ.get("PYTHON_EXEC") else [f"--python={sys.executable}"]
    # Python ignores these signals. A program started by exec would continue to ignore them, and so
    # would its workers.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(find_ddprun(), ["ddprun", *python, *words])


def replace_torchrun():
    try:
        import torch.distributed.run as torchrun
    except ImportError as error:
        sys.exit(f"ddprun.shim: {sys.executable} has no PyTorch: {error}")
    torchrun.run = lambda args: become_ddprun(words_of(args, torchrun.get_args_parser()))
    torchrun.main = lambda args=None: become_ddprun(list(sys.argv[1:] if args is None else args))


def is_python(path, start):
    """Recognizes also the first lines that pip writes where the environment's path is long or has a
    space."""
    if path.endswith(".py"):
        return True
    first, second = (start.split(b"\n") + [b""])[:2]
    return first.startswith(b"#!") and (b"python" in first or (second.startswith(b"'''exec'") and b"python" in second))


def find_program(name):
    """The path of a Python program: `name` itself if it is a path, else found in this environment
    or on PATH."""
    folders = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    path = name if os.sep in name else shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        sys.exit(f"ddprun.shim: {name}: program not found in this environment or on PATH")
    try:
        with open(path, "rb") as file:
            start = file.read(1024)
    except OSError as error:
        sys.exit(f"ddprun.shim: {path}: {error.strerror}")
    if not is_python(path, start):
        sys.exit(f"ddprun.shim: {path}: not a Python program; give -m MODULE, or a script")
    return path


def main():
    words = sys.argv[1:]
    if words[:2] == ["-m", "torch.distributed.run"]:
        become_ddprun(words[2:])
    elif words[:1] == ["-m"] and len(words) > 1:
        replace_torchrun()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words and not words[0].startswith("-"):
        path = find_program(words[0])
        replace_torchrun()
        sys.argv = [path, *words[1:]]
        # As Python does it: the folder of the script, not the current folder as with -m.
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = os.path.dirname(os.path.realpath(path))
        runpy.run_path(path, run_name="__main__")
    else:
        print(USAGE, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
