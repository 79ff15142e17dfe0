# SPDX-License-Identifier: Apache-2.0
"""One rank of the peer: a model of so many floats with PyTorch's DistributedDataParallel and
ZeroRedundancyOptimizer on gloo, measured as sharded_bench measures ours."""
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

PARAMETERS, STEPS = 32, 15


class Model(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(count // PARAMETERS)) for _ in range(PARAMETERS))

    def forward(self):
        return sum(part.sum() for part in self.parts)


def pss_kib():
    with open("/proc/self/smaps_rollup", encoding="ascii") as rollup:
        return next(float(line.split()[1]) for line in rollup if line.startswith("Pss:"))


torch.set_num_threads(1)
dist.init_process_group("gloo")
count = int(sys.argv[1])
dist.barrier()
before = pss_kib()
model = DistributedDataParallel(Model(count), gradient_as_bucket_view=True)
optimizer = ZeroRedundancyOptimizer(
    model.parameters(), optimizer_class=torch.optim.AdamW, parameters_as_bucket_view=True, lr=1e-3)
times = []
for _ in range(STEPS):
    dist.barrier()
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=False)
    (model() * 0.01).backward()
    optimizer.step()
    times.append((time.perf_counter() - start) * 1e6)
dist.barrier()
memory = torch.tensor(pss_kib() - before, dtype=torch.float64)
dist.all_reduce(memory)
memory = memory.item() / dist.get_world_size()
if dist.get_rank() == 0:
    print(f"step {count} {statistics.median(times):.3f}", flush=True)
    print(f"memory {count} {memory:.3f}", flush=True)
dist.destroy_process_group()
