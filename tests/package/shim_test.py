# SPDX-License-Identifier: Apache-2.0
"""shim_test.py PACKAGING: ddprun.shim with a torch.distributed.run that is not there, and a ddprun that shows what it was
given. With PyTorch and accelerate: tests/interop/frameworks."""
import os
import pathlib
import subprocess
import sys
import tempfile

# A parser with an action of each kind that PyTorch's has.
TORCHRUN = '''
import argparse, os
class env(argparse.Action):
    def __init__(self, dest, default=None, required=False, **more):
        super().__init__(dest=dest, default=os.environ.get("PET_" + dest.upper(), default), required=False, **more)
    def __call__(self, parser, namespace, values, option=None):
        setattr(namespace, self.dest, values)
def get_args_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nnodes", action=env, default="1:1")
    parser.add_argument("--nproc-per-node", "--nproc_per_node", action=env, default="1")
    parser.add_argument("--rdzv-backend", action=env, default="static")
    parser.add_argument("--node-rank", action=env, type=int, default=0)
    parser.add_argument("--master-addr", action=env, default="127.0.0.1")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("-t", "--tee", action=env, default="0")
    parser.add_argument("--duplicate-stdout-filters", type=lambda text: text.split(","), default=[])
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser
def run(args):
    print("torchrun itself")
def main(args=None):
    run(get_args_parser().parse_args(args))
'''
# As accelerate does: a namespace of its own making, the options as attributes.
PROGRAM = '''#!{python}
import sys, torch.distributed.run as torchrun
parser = torchrun.get_args_parser()
args, _ = parser.parse_known_args(["train.py", "--lr", "1"])
for word in sys.argv[1:]:
    name, value = word.split("=")
    setattr(args, name, eval(value))
torchrun.run(args)
print("after")
'''
DDPRUN = '#!/bin/sh\nprintf "%s\\n" "$@"\ngrep SigIgn /proc/$$/status >&2\nexit 7\n'


class Environment:
    def __init__(self, folder, packaging):
        self.folder = pathlib.Path(folder)
        package = self.folder / "lib" / "torch" / "distributed"
        package.mkdir(parents=True)
        for path, text in ((package.parent / "__init__.py", ""), (package / "__init__.py", ""), (package / "run.py", TORCHRUN)):
            path.write_text(text)
        self.program("ddprun", DDPRUN)
        self.program("start", PROGRAM.format(python=sys.executable))
        self.program("shell", "#!/bin/sh\n")
        # What pip writes where the environment's path is long.
        self.program("long", "#!/bin/sh\n'''exec' \"" + sys.executable + "\" \"$0\" \"$@\"\n' '''\n" + PROGRAM.split("\n", 1)[1])
        self.program("beside", f"#!{sys.executable}\nimport sibling\n")
        (self.folder / "sibling.py").write_text("import torch.distributed.run\ntorch.distributed.run.main(['beside.py'])\n")
        (self.folder / "lib" / "by_main.py").write_text("import torch.distributed.run\ntorch.distributed.run.main()\n")
        self.variables = {"PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": f"{packaging}:{self.folder / 'lib'}"}

    def program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def shim(self, *words, **variables):
        return subprocess.run([sys.executable, "-B", "-m", "ddprun.shim", *words], env={**self.variables, **variables}, capture_output=True,
                              text=True)

    def handed_over(self, *words, **variables):
        result = self.shim(*words, **variables)
        assert result.returncode == 7, result  # ddprun's own, and nothing ran after it
        # A process that Python started would ignore a broken pipe, and its workers too.
        assert int(result.stderr.split("SigIgn:")[1].split()[0], 16) & 1 << 12 == 0, result.stderr
        return result.stdout.splitlines()


def main():
    python = f"--python={sys.executable}"
    script = ["--", "train.py", "--lr", "1"]
    with tempfile.TemporaryDirectory() as folder:
        it = Environment(folder, sys.argv[1])
        checks = [
            # Only what differs from the default.
            (it.handed_over("start"), [python, *script]),
            (it.handed_over("start", "nproc_per_node='2'", "node_rank='0'", "standalone=True", "module=True"),
             [python, "--nproc-per-node=2", "--standalone", "--module", *script]),
            (it.handed_over("start", "duplicate_stdout_filters=['a','b']", "tee='3'"),
             [python, "--tee=3", "--duplicate-stdout-filters=a,b", *script]),
            # ddprun reads the variables too; what was given after all counts more.
            (it.handed_over("start", PET_NPROC_PER_NODE="4"), [python, *script]),
            (it.handed_over("start", "nproc_per_node='1'", PET_NPROC_PER_NODE="4"), [python, "--nproc-per-node=1", *script]),
            # torchrun's node is node 0 of a job of several unless it is given another place.
            (it.handed_over("start", "nnodes='2'", "master_addr='h'"),
             [python, "--nnodes=2", "--master-addr=h", "--rdzv-backend=static", "--node-rank=0", *script]),
            (it.handed_over("start", "nnodes='2'", "node_rank=1"), [python, "--nnodes=2", "--rdzv-backend=static", "--node-rank=1", *script]),
            (it.handed_over("start", PYTHON_EXEC="/other/python"), script),
            (it.handed_over("long"), [python, *script]),
            (it.handed_over("beside"), [python, "beside.py"]),
            # torch.distributed.launch without --use-env.
            (it.handed_over("start", "use_env=False"), [python, "--pass-local-rank", *script]),
            (it.handed_over("start", "use_env=True"), [python, *script]),
            (it.handed_over("-m", "torch.distributed.run", "--nproc_per_node", "2", "a.py"), [python, "--nproc_per_node", "2", "a.py"]),
            # main() parses nothing: ddprun does.
            (it.handed_over("-m", "by_main", "--nproc_per_node", "2", "a.py", "b c"), [python, "--nproc_per_node", "2", "a.py", "b c"]),
        ]
        for found, expected in checks:
            assert found == expected, f"{found} instead of {expected}"
        mistakes = [
            (it.shim(), 2, "usage: "), (it.shim("--version"), 2, "usage: "),
            (it.shim("nothing-of-this-name"), 1, "ddprun.shim: nothing-of-this-name: program not found"),
            (it.shim("shell"), 1, f"ddprun.shim: {folder}/shell: not a Python program"),
            (it.shim("start", PYTHONPATH=sys.argv[1]), 1, f"ddprun.shim: {sys.executable} has no PyTorch")]
        for result, code, text in mistakes:
            assert result.returncode == code and result.stderr.startswith(text), result
        (it.folder / "ddprun").unlink()
        result = it.shim("start", PATH=f"{folder}:/usr/bin:/bin")
        assert result.returncode == 1 and "no ddprun in this environment or on PATH" in result.stderr, result


main()
