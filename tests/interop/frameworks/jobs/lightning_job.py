# SPDX-License-Identifier: Apache-2.0
"""A small training with Lightning, which recognises torchrun by its variables."""
import lightning
import torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        losses = self.all_gather(loss.detach())
        if self.global_rank == 0:
            print(f"step {index} losses {[float(loss).hex() for loss in losses]}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=8))
