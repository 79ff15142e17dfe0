# SPDX-License-Identifier: Apache-2.0
"""torch_cifar.py BATCH STEPS: the network of examples/cifar in PyTorch, channels-last, bfloat16, eager and then, if that works,
compiled. Images per second of the best of three times STEPS steps; made-up pictures, already on the GPU."""
import sys

import torch_peer

torch = torch_peer.cuda()
batch, steps = map(int, sys.argv[1:])
WIDTH = 64


def unit(inputs, outputs, pools=False):
    from torch import nn
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pools else []))


def network():
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.body = nn.Sequential(unit(channels, channels), unit(channels, channels))

        def forward(self, x):
            return x + self.body(x)

    w = WIDTH
    return nn.Sequential(
        unit(3, w), unit(w, 2 * w, True), Residual(2 * w), unit(2 * w, 4 * w, True), unit(4 * w, 8 * w, True), Residual(8 * w),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * w, 10, bias=False))


def main():
    torch.backends.cudnn.benchmark = True
    model = network().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    pictures = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(10, (batch,), device="cuda")
    loss_of = torch.nn.CrossEntropyLoss()

    def trained(forward):
        def run(count=steps):
            for _ in range(count):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = loss_of(forward(pictures), labels)
                loss.backward()
                optimizer.step()
        return run

    def measure(run, how):
        run(10)
        torch_peer.print_figure(batch * steps / min(torch_peer.seconds_of(torch, run) for _ in range(3)), how)

    measure(trained(model), "eager")
    try:
        measure(trained(torch.compile(model)), "compiled")
    except Exception as error:  # whatever it lacks: the eager one is the peer then
        print(f"not compiled: {type(error).__name__}: {error}".splitlines()[0])


main()
