"""Lightning's Trainer under a launcher, as its documentation has it: devices and num_nodes said once more.

Usage: with_lightning.py FOLDER
"""

import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from saying import leave, ok


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    lightning.seed_everything(3, verbose=False)
    inputs = torch.randn(64, 4)
    data = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=8, shuffle=True)
    workers = int(os.environ["LOCAL_WORLD_SIZE"])
    world = int(os.environ["WORLD_SIZE"])
    trainer = lightning.Trainer(accelerator="cpu", devices=workers, num_nodes=world // workers, strategy="ddp", max_epochs=1,
                                logger=False, enable_progress_bar=False, default_root_dir=sys.argv[1])
    trainer.fit(model := Model(), data)
    assert (trainer.world_size, trainer.global_rank) == (world, int(os.environ["RANK"]))
    assert trainer.num_training_batches == 64 // 8 // world
    weights = trainer.strategy.all_gather(torch.cat([each.detach().flatten() for each in model.parameters()]))
    assert all(torch.equal(each, weights[0]) for each in weights)
    ok("Lightning")
    leave()


main()
