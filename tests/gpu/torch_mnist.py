# SPDX-License-Identifier: Apache-2.0
"""torch_mnist.py SAMPLES BATCH EPOCHS: the network of examples/mnist with PyTorch's DistributedDataParallel, eager, the data
on the GPU already. Milliseconds per epoch, the best of EPOCHS after one that does not count."""
import sys

import torch_peer

torch = torch_peer.cuda()
samples, batch, epochs = map(int, sys.argv[1:])


def main():
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(128, 10, bias=False)).cuda(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    pictures = torch.randint(256, (samples, 784), dtype=torch.uint8, device="cuda")
    labels = torch.randint(10, (samples,), device="cuda")
    loss_of = nn.CrossEntropyLoss()

    def epoch():
        order = torch.randperm(samples, device="cuda")
        for rows in order.split(batch):
            optimizer.zero_grad()
            loss_of(model(pictures[rows].float() / 255), labels[rows]).backward()
            optimizer.step()

    epoch()
    torch_peer.print_figure(1e3 * min(torch_peer.seconds_of(torch, epoch) for _ in range(epochs)))


torch_peer.in_world_of_one(main)
