# SPDX-License-Identifier: Apache-2.0
"""elastic_test.py BUILD: jobs of PyTorch scripts with ddprun.elastic whose workers are killed or fail."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build/release"
PYTHON = os.environ.get("DDPRUN_TORCH_PYTHON", "")
MODULE = str(pathlib.Path(__file__).resolve().parents[3] / "worker_sdk/python")
TIME_LIMIT = 120

# What the scripts have in common. A rank that dies does so by SIGKILL, once.
START = """
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import ddprun

def say(text):
    sys.stdout.write(text + "\\n")

def die_once(name):
    try:
        open(os.path.join(os.environ["ONCE"], name), "x")
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

torch.manual_seed(1)
torch.set_num_threads(1)
ddprun.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
state = ddprun.State(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), step=0)

def one_step(ddp, state):
    ddp(torch.ones(2, 4) * (1 + dist.get_rank())).sum().backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.step += 1
    state.commit()
"""

# PyTorch 2.15 aborts now and then while the interpreter ends, under torchrun too: "terminate called without an
# active exception".
END = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""

# Rank 1 dies after its second step.
SHORT_TRAINING = """

@ddprun.elastic
def train(state):
    ddp = DDP(state.model)
    while state.step < 3:
        one_step(ddp, state)
        if dist.get_rank() == 1 and state.step == 2:
            die_once("one")

train(state)
"""


class Ended:
    def __init__(self, code, output):
        self.code, self.output = code, output
        self.pids = [line.split()[1:] for line in output.splitlines() if line.startswith("pid ")]


def run(script, *options, ranks=2, launcher=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "train.py"
        path.write_text(script + END)
        command = launcher or [f"{BUILD}/bin/ddprun", f"--python={PYTHON}", "--max-restarts=3", "--shutdown-timeout=5"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DDPRUN_")}
        environment |= {"PYTHONPATH": MODULE, "OMP_NUM_THREADS": "1", "ONCE": folder}
        ended = subprocess.run(
            [*command, "--standalone", f"--nproc-per-node={ranks}", *options, str(path)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT)
        return Ended(ended.returncode, ended.stdout)


class Elastic(unittest.TestCase):
    def assert_recovered(self, ended, kept):
        self.assertEqual(ended.code, 0, ended.output)
        self.assertRegex(ended.output, f"round.recovered round=1 kept={kept} ", ended.output)

    def test_ranks_that_wait_for_a_living_one_are_freed(self):
        """Ranks 2 and 3 are in a group of their own when rank 1 dies. Rank 2 waits there for rank 3, which
        waits for rank 1 in the group of all."""
        ended = run(START + """
@ddprun.elastic
def train(state):
    rank = dist.get_rank()
    pair = dist.new_group([2, 3])
    ddp = DDP(state.model)
    say(f"pid {rank} {os.getpid()}")
    one_step(ddp, state)
    if state.step < 2:
        if rank == 2:
            dist.all_reduce(torch.ones(1), group=pair)
        if rank == 1:
            die_once("one")
        dist.barrier()
    say(f"done {state.step}")

train(state)
""", ranks=4)
        self.assert_recovered(ended, 3)
        self.assertEqual(ended.output.count("done 2\n"), 4, ended.output)
        self.assertEqual(len({tuple(pid) for pid in ended.pids}), 5, ended.output)

    def test_what_a_step_had_begun_is_undone(self):
        """Buffers, counters and gradients that the interrupted step has changed. A scheduler is part of the
        state."""
        ended = run(START + """
class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.ones(4, dtype=torch.bool))

    def forward(self, batch):
        self.forwards += 1
        return self.linear(batch)

model = Counted()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
state = ddprun.State(model, optimizer, step=0, scheduler=scheduler, seen=0)

@ddprun.elastic
def train(state):
    ddp = DDP(state.model, broadcast_buffers=False)
    while state.step < 8:
        state.seen += 2
        state.scheduler.step()
        loss = ddp(torch.ones(2, 4)).sum()
        if state.step in (2, 6) and dist.get_rank() == 1:
            die_once(f"at {state.step}")
        loss.backward()
        state.optimizer.step()
        state.optimizer.zero_grad()
        state.step += 1
        state.commit()

train(state)
ddprun.elastic(lambda state: None)(state)
lr = optimizer.param_groups[0]["lr"]
say(f"end forwards {int(model.forwards)} seen {state.seen} lr {lr:.6f} adam {int(optimizer.state[model.linear.weight]['step'])}")
""")
        self.assert_recovered(ended, 1)
        self.assertEqual(ended.output.count("end forwards 8 seen 16 lr 0.000010 adam 8\n"), 2, ended.output)
        self.assertEqual(ended.output.count("round.recovered"), 2, ended.output)
        self.assertIn("another one fails: a process has one call of an elastic function\n", ended.output)

    def test_a_wrapper_of_an_earlier_round_is_refused(self):
        ended = run(START + """
wrappers = []

@ddprun.elastic
def train(state):
    wrappers.append(DDP(state.model))
    ddp = wrappers[0]
    while state.step < 100:
        if dist.get_rank() == 1 and state.step == 2:
            die_once("one")
        one_step(ddp, state)

train(state)
""", "--max-restarts=1")
        self.assertNotEqual(ended.code, 0, ended.output)
        self.assertIn("this DistributedDataParallel is one of an earlier round: build it in the elastic function", ended.output)

    def test_groups_before_the_elastic_function_are_an_error(self):
        """In a new process, at once: the timeout of such a group is half an hour."""
        ended = run(START + "dist.new_group([0, 1])" + SHORT_TRAINING, "--max-restarts=1")
        self.assertNotEqual(ended.code, 0, ended.output)
        self.assertIn("groups are made in the elastic function: the other ranks, which have kept their processes", ended.output)

    def test_a_collective_call_before_the_elastic_function_is_an_error(self):
        """In a new process, while the others wait for it to get their state."""
        ended = run(START + "dist.barrier()" + SHORT_TRAINING, "--max-restarts=1")
        self.assertNotEqual(ended.code, 0, ended.output)
        self.assertRegex(ended.output, r"ddprun: rank 1 has not called its elastic function \(before it a new process makes no "
                                       r"collective calls\) for 2\d s\n")
        self.assertRegex(ended.output, r"root cause +rank 1 ", ended.output)
        self.assertIn("dist.barrier()", ended.output)

    def test_a_failure_of_its_own_ends_a_worker_at_once(self):
        """Also when a group of its own is gone. Its traceback is printed; the other one is held."""
        ended = run(START + """
@ddprun.elastic
def train(state):
    ddp = DDP(state.model)
    dist.destroy_process_group(dist.new_group([0, 1]))
    while state.step < 5:
        one_step(ddp, state)
        if state.step == 2 and dist.get_rank() == 1 and os.environ["DDPRUN_ROUND"] == "0":
            raise RuntimeError("out of memory")
    say("done")

train(state)
""")
        self.assert_recovered(ended, 1)
        self.assertIn("RuntimeError: out of memory", ended.output)
        self.assertNotIn("waits for the end of the round", ended.output)
        self.assertEqual(ended.output.count("done\n"), 2, ended.output)

    def test_deaths_while_the_others_recover(self):
        """Rank 1 dies once more as soon as it is in the next round: before the group is made, within, and after."""
        ended = run(START.replace('ddprun.init_process_group("gloo")', """
number = int(os.environ["DDPRUN_ROUND"])
if number == 1:
    die_once("before the group")
if number == 5:
    import torch.distributed.distributed_c10d as c10d
    c10d._new_process_group_helper = lambda *_, **__: die_once("within")
ddprun.init_process_group("gloo")
if number == 3 and os.environ["RANK"] == "1":
    die_once("after the group")
""") + """
@ddprun.elastic
def train(state):
    say(f"pid {dist.get_rank()} {os.getpid()}")
    ddp = DDP(state.model)
    while state.step < 10:
        one_step(ddp, state)
        for step in (3, 5, 7):
            if state.step == step and dist.get_rank() == 1:
                die_once(f"at {step}")
    say(f"end {state.model.weight.sum().item():.4f}")

train(state)
""", "--max-restarts=10", ranks=3)
        self.assert_recovered(ended, 2)
        self.assertEqual(ended.output.count("round.recovered"), 6, ended.output)
        self.assertEqual(len({pid for rank, pid in ended.pids if rank == "0"}), 1, ended.output)
        ends = re.findall(r"end (\S+)\n", ended.output)
        self.assertEqual(len(ends), 3, ended.output)
        self.assertEqual(len(set(ends)), 1, ended.output)

    def test_a_step_that_always_fails_begins_with_the_checkpoint(self):
        """After two rounds with the state of the step before it all processes are new."""
        ended = run(START + """
@ddprun.elastic
def train(state):
    say(f"pid {dist.get_rank()} {os.getpid()}")
    ddp = DDP(state.model)
    while state.step < 6:
        if state.step == 3 and dist.get_rank() == 1:
            for death in range(3):
                die_once(f"death {death}")
        one_step(ddp, state)

train(state)
""")
        self.assertEqual(ended.code, 0, ended.output)
        self.assertEqual(ended.output.count("round.recovered"), 2, ended.output)
        self.assertEqual(len({pid for rank, pid in ended.pids if rank == "0"}), 2, ended.output)

    def test_other_backends_and_launchers_run_the_function_once(self):
        script = START.replace('init_process_group("gloo")', "init_process_group()") + """
@ddprun.elastic
def train(state):
    ddp = DDP(state.model)
    one_step(ddp, state)
    return state.step

say(f"returned {train(state)}")
"""
        ended = run(script)
        self.assertEqual(ended.code, 0, ended.output)
        self.assertEqual(ended.output.count("returned 1\n"), 2, ended.output)
        self.assertIn("the backend is None; workers are kept with init_process_group(\"gloo\")", ended.output)
        ended = run(script, launcher=[str(pathlib.Path(PYTHON).parent / "torchrun")])
        self.assertEqual(ended.code, 0, ended.output)
        self.assertEqual(ended.output.count("returned 1\n"), 2, ended.output)
        self.assertNotIn("ddprun:", ended.output)

    def test_mistakes_are_named(self):
        """Without a launcher, in one process."""
        script = """
import torch, ddprun
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def tried(call):
    try:
        return call()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
tried(lambda: ddprun.State("model", optimizer))
tried(lambda: ddprun.State(model, optimizer, commit=1))
state = ddprun.State(model, optimizer, step=5)
state.commit()
tried(state.commit)
other = torch.nn.Linear(2, 2)
tried(lambda: ddprun.State(model, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)))
ddprun.State(model, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1), other=other)
class Wrapped:
    param_groups = ()
tried(lambda: ddprun.State(model, Wrapped()))
tried(lambda: ddprun.elastic(lambda state: None)("state"))
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
tried(lambda: ddprun.State(torch.nn.parallel.DistributedDataParallel(model), optimizer))
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_module
sharded = distribute_module(torch.nn.Linear(2, 2), init_device_mesh("cpu", (1,)))
tried(lambda: ddprun.State(sharded, optimizer))
print("value", ddprun.elastic(lambda state, more: more)(state, 7))
dist.destroy_process_group()
"""
        environment = dict(os.environ, PYTHONPATH=MODULE)
        output = subprocess.run([PYTHON, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=TIME_LIMIT).stdout
        for line in (
                "TypeError: ddprun.State: the model is a torch.nn.Module, not str",
                "ValueError: ddprun.State: 'commit' has a meaning of its own; give it another name",
                "ValueError: ddprun.State.commit: step 5 after 5; each step has a higher one",
                "TypeError: ddprun.elastic: the first argument of <lambda> is a ddprun.State, not str",
                "TypeError: ddprun.State: give the model itself (ddp.module); build DistributedDataParallel in the elastic function",
                "TypeError: ddprun.State: weight is sharded over ranks; only a state that is the same on all can be kept",
                "ValueError: ddprun.State: an optimizer has parameters of no module of this State; give that module too",
                "TypeError: ddprun.State: Wrapped is no torch.optim.Optimizer: its steps cannot be seen",
                "value 7"):
            self.assertIn(line + "\n", output)


if __name__ == "__main__":
    if not PYTHON:
        if os.environ.get("DDPRUN_REQUIRE_TORCH") == "1":
            sys.exit("PyTorch is required and DDPRUN_TORCH_PYTHON names none")
        print("SKIP elastic: DDPRUN_TORCH_PYTHON names no Python with PyTorch")
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
