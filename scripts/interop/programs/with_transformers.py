"""Transformers' Trainer under a launcher, with a small model of random weights: nothing is downloaded.

Usage: with_transformers.py FOLDER
"""

import os
import sys

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from saying import leave, ok


class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, number):
        tokens = torch.arange(number, number + 8) % 64
        return {"input_ids": tokens, "labels": tokens}


def main():
    world = int(os.environ["WORLD_SIZE"])
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(output_dir=sys.argv[1], use_cpu=True, ddp_backend="gloo", num_train_epochs=1,
                                  per_device_train_batch_size=4, report_to=[], save_strategy="no", disable_tqdm=True)
    assert (arguments.world_size, arguments.process_index) == (world, int(os.environ["RANK"]))
    trainer = Trainer(model=model, args=arguments, train_dataset=Text())
    result = trainer.train()
    assert result.global_step == 32 // 4 // world, result
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    dist.all_gather(everywhere := [torch.empty_like(weights) for _ in range(world)], weights)
    assert all(torch.equal(each, weights) for each in everywhere)
    ok("Transformers Trainer")
    leave()


main()
