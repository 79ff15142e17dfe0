# SPDX-License-Identifier: Apache-2.0
"""examples/libtorch_ddp/train_toy.cpp in Python, with PyTorch's own DistributedDataParallel."""
import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 32)
        self.norm = nn.BatchNorm1d(32)
        self.detour = nn.Linear(32, 32)
        self.last = nn.Linear(32, 1)

    def forward(self, input, takes_detour):
        hidden = torch.relu(self.norm(self.first(input)))
        if takes_detour:
            hidden = hidden + self.detour(hidden)
        return self.last(hidden)


STEPS, BATCH = 30, 16
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(rank)
model = DistributedDataParallel(Net(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

torch.manual_seed(100 + rank)
weights = torch.linspace(-1, 1, 20).unsqueeze(1)


def backward(step):
    input = torch.randn(BATCH, 20)
    loss = nn.functional.mse_loss(model(input, step % 3 != 1), input.matmul(weights))
    loss.backward()
    return loss.item()


for step in range(STEPS):
    optimizer.zero_grad()
    if step % 5 == 4:
        with model.no_sync():
            backward(step + 1)
    loss = backward(step)
    nn.utils.clip_grad_norm_(model.parameters(), 5)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss:.9g}", flush=True)
# gloo's threads end with the last reference to the group; one that outlives it aborts the process.
del model, optimizer
gc.collect()
dist.destroy_process_group()
