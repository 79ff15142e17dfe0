# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's DistributedSampler gives.

torch_sampler.py CASES OUT: each line of CASES is "samples world rank shuffle seed drop_last epoch";
OUT gets for each the count and the indices, 64 bits each.
"""
import array
import sys

from torch.utils.data.distributed import DistributedSampler

with open(sys.argv[1]) as cases, open(sys.argv[2], "wb") as out:
    for line in cases:
        samples, world, rank, shuffle, seed, drop_last, epoch = map(int, line.split())
        sampler = DistributedSampler(
            range(samples), world, rank, shuffle=bool(shuffle), seed=seed, drop_last=bool(drop_last))
        sampler.set_epoch(epoch)
        indices = list(sampler)
        assert len(indices) == len(sampler)
        array.array("q", [len(indices)] + indices).tofile(out)
