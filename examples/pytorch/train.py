#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary data-parallel PyTorch script on the CPU; it does not depend on the launcher.

Trains a small network on synthetic data with fixed seeds, so that every launcher gives the same
losses for the same world size.
"""
import argparse
import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per worker and step")
    parser.add_argument("--hidden", type=int, default=64, help="units of the hidden layer")
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def synthetic_data(samples, seed):
    """Points in ten dimensions, in two classes that no plane separates."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(samples, 10, generator=generator)
    classes = (points[:, :5].norm(dim=1) > points[:, 5:].norm(dim=1)).long()
    return TensorDataset(points, classes)


def mean_over_ranks(total, count):
    sums = torch.tensor([total, count], dtype=torch.float64)
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def train_epoch(model, loader, optimizer, loss_of):
    total, count = 0.0, 0
    for points, classes in loader:
        optimizer.zero_grad()
        loss = loss_of(model(points), classes)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(classes)
        count += len(classes)
    return mean_over_ranks(total, count)


def main():
    options = parse_options()
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world_size}", flush=True)

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    data = synthetic_data(options.samples, options.seed)
    sampler = DistributedSampler(data, seed=options.seed)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(10, options.hidden), nn.ReLU(), nn.Linear(options.hidden, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer, nn.CrossEntropyLoss())
        if rank == 0:
            print(f"epoch {epoch + 1}/{options.epochs} loss {loss:.6f}", flush=True)
    # gloo's threads end with the last reference to the group. One that still frees a tensor while
    # the interpreter shuts down aborts the process (seen with PyTorch 2.13, under any launcher).
    del model, optimizer
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
