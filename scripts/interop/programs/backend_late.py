"""Rank 1 makes its extension in the folder of the first argument, which is empty, while the others have theirs; the limit of a meeting is
shorter than that takes."""

import datetime
import os
import sys

if os.environ["RANK"] == "1":
    os.environ["XDG_CACHE_HOME"] = sys.argv[1]

import torch
import torch.distributed as dist

import ddprun.torch

dist.init_process_group("ddprun", timeout=datetime.timedelta(seconds=4))
dist.all_reduce(total := torch.ones(1))
print(f"the sum is {int(total)}", flush=True)
dist.destroy_process_group()
