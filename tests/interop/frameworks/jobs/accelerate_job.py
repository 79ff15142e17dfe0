# SPDX-License-Identifier: Apache-2.0
"""A small training with accelerate."""
import os
import sys

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
for step, (inputs, targets) in enumerate(loader):
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    losses = accelerator.gather(loss.detach()[None])
    accelerator.print(f"step {step} losses {[float(loss).hex() for loss in losses]}")
accelerator.end_training()
# PyTorch 2.15 aborts now and then while the interpreter ends, under torchrun too.
sys.stdout.flush()
os._exit(0)
