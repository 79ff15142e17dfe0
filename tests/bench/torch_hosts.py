# SPDX-License-Identifier: Apache-2.0
"""One of two ranks of the peer: PyTorch's gloo, measured as hosts_bench measures ours. torch_hosts.py BYTES..."""
import statistics
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()


def measure(what, size, calls, once):
    times, until = [], time.perf_counter() + 0.15
    for i in range(100_000):
        dist.barrier()
        start = time.perf_counter()
        once()
        taken = time.perf_counter() - start
        both = torch.tensor([taken, float(time.perf_counter() >= until and i >= 8)], dtype=torch.float64)
        dist.all_reduce(both, dist.ReduceOp.MAX)
        if i >= 3:
            times.append(both[0].item() * 1e6 / calls)
        if both[1].item() > 0:
            break
    if RANK == 0:
        print(f"{what} {size} {statistics.median(times):.2f}", flush=True)


def for_each_root(call):
    return lambda: [call(root) for root in (0, 1)]


def message(root, data, output):
    if root == RANK:
        dist.send(data, 1 - root)
    else:
        dist.recv(output, root)


def main():
    for size in map(int, sys.argv[1:]):
        count = size // 4
        one, other, two, out = torch.zeros(count), torch.zeros(count), torch.zeros(2 * count), torch.zeros(2 * count)
        parts, theirs = list(out.chunk(2)), list(two.chunk(2))
        measure("barrier", size, 1, dist.barrier)
        measure("all_reduce", size, 1, lambda: dist.all_reduce(one))
        measure("all_gather", size, 1, lambda: dist.all_gather_into_tensor(out, one))
        measure("reduce_scatter", size, 1, lambda: dist.reduce_scatter_tensor(one, two))
        measure("all_to_all", size, 1, lambda: dist.all_to_all_single(out, two))
        measure("reduce", size, 2, for_each_root(lambda root: dist.reduce(one, root)))
        measure("broadcast", size, 2, for_each_root(lambda root: dist.broadcast(one, root)))
        measure("gather", size, 2, for_each_root(lambda root: dist.gather(one, parts if root == RANK else None, root)))
        measure("scatter", size, 2, for_each_root(lambda root: dist.scatter(one, theirs if root == RANK else None, root)))
        measure("send", size, 2, for_each_root(lambda root: message(root, one, other)))


main()
