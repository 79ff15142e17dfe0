# SPDX-License-Identifier: Apache-2.0
"""One rank of the peer: the same network and batch with PyTorch's DistributedDataParallel on gloo,
measured as ddp_bench measures ours."""
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BLOCKS, STEPS, PICTURES = 101, 5, 2048

torch.set_num_threads(1)
torch.manual_seed(1)
dist.init_process_group("gloo")
batch = int(sys.argv[1])
model = DistributedDataParallel(nn.Sequential(
    nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(128, 10, bias=False)), gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
pictures, labels = torch.rand(PICTURES, 784), torch.randint(10, (PICTURES,))
loss_of = nn.CrossEntropyLoss()


def step(first):
    optimizer.zero_grad()
    rows = slice(first, first + batch)
    loss_of(model(pictures[rows]), labels[rows]).backward()
    optimizer.step()


times = []
for _ in range(BLOCKS):
    dist.barrier()
    start = time.perf_counter()
    for i in range(STEPS):
        step(i * batch % (PICTURES - batch))
    times.append((time.perf_counter() - start) / STEPS * 1e6)
if dist.get_rank() == 0:
    print(f"ddp {batch} {statistics.median(times):.3f}", flush=True)
dist.destroy_process_group()
