# SPDX-License-Identifier: Apache-2.0
"""A small training with DeepSpeed on the CPU, ZeRO stage 1."""
import deepspeed
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
deepspeed.init_distributed("gloo")
engine, _, loader, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), training_data=data, config={
    "train_micro_batch_size_per_gpu": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True})
for step, (inputs, targets) in enumerate(loader):
    loss = torch.nn.functional.mse_loss(engine(inputs), targets)
    engine.backward(loss)
    engine.step()
    total = loss.detach().clone()
    torch.distributed.all_reduce(total)
    if torch.distributed.get_rank() == 0:
        print(f"step {step} losses {float(total).hex()}", flush=True)
torch.distributed.destroy_process_group()
