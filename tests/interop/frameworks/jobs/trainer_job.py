# SPDX-License-Identifier: Apache-2.0
"""A small training with the Trainer of transformers."""
import tempfile

import torch
import transformers


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, inputs, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(inputs), labels)}


class Show(transformers.TrainerCallback):
    def on_log(self, args, state, control, logs, **others):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} losses {logs['loss']} {logs['grad_norm']}", flush=True)


transformers.set_seed(0)
data = [{"inputs": torch.randn(8), "labels": torch.randn(1)} for _ in range(64)]
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        folder, use_cpu=True, per_device_train_batch_size=8, num_train_epochs=1, logging_steps=1, save_strategy="no", report_to=[],
        disable_tqdm=True)
    transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[Show()]).train()
