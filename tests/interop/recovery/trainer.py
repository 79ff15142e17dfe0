# SPDX-License-Identifier: Apache-2.0
"""trainer.py STEPS: recovering_trainer.cpp with PyTorch: an MLP, Adam, a buffer that each forward changes."""
import hashlib
import os
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

import ddprun

STEPS = int(sys.argv[1])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))

    def forward(self, batch):
        self.seen += batch.double().sum() * 0 + 1
        return self.layers(batch) * (1 + self.seen / 1e6).float()


def batch_of(step, rank):
    return torch.sin(torch.arange(8 * 16, dtype=torch.float32).reshape(8, 16) * (1 + step % 97) + rank)


def say(text):
    sys.stdout.write(text + "\n")  # in one call, so that lines of several ranks do not mix


@ddprun.elastic
def train(state):
    rank = int(os.environ["RANK"])
    number = os.environ["DDPRUN_ROUND"]
    # So it does not reorder its buckets after the first step, and with them the sums of gradients.
    ddp = DistributedDataParallel(state.model, find_unused_parameters=True)
    say(f"begins rank={rank} pid={os.getpid()} round={number} step={state.step} at={time.monotonic():.6f}")
    is_first = True
    while state.step < STEPS:
        ddp(batch_of(state.step, rank)).square().mean().backward()
        state.optimizer.step()
        state.optimizer.zero_grad()
        state.step += 1
        state.commit()
        if is_first:
            say(f"steps rank={rank} round={number} at={time.monotonic():.6f}")
            is_first = False
        time.sleep(0.002)


torch.manual_seed(1)
torch.set_num_threads(1)
ddprun.init_process_group("gloo")
model = Model()
state = ddprun.State(model, torch.optim.Adam(model.parameters(), lr=0.01), step=0)
train(state)
digest = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values()))
say(f"ends rank={os.environ['RANK']} hash={digest.hexdigest()[:16]}")
sys.stdout.flush()
os._exit(0)  # PyTorch 2.15 aborts now and then while the interpreter ends
