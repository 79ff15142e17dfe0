# SPDX-License-Identifier: Apache-2.0
"""One rank of the peer: PyTorch's gloo, measured as allreduce_bench measures ours."""
import statistics
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
start = time.perf_counter()
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    print(f"create 0 {(time.perf_counter() - start) * 1e6:.3f}", flush=True)
for size in map(int, sys.argv[1:]):
    values = torch.zeros(size // 4)
    at_a_time = 20 if size <= 64 * 1024 else 1
    times = []
    for i in range(10 if size >= 16 << 20 else 30):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(at_a_time):
            dist.all_reduce(values)
        took = torch.tensor([(time.perf_counter() - start) / at_a_time * 1e6], dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        if i >= 3:
            times.append(took.item())
    if dist.get_rank() == 0:
        print(f"gloo {size} {statistics.median(times):.3f}", flush=True)
dist.destroy_process_group()
