"""Python ends while the backend's threads call it: nobody is aborted, whether the group was ended or not.

Usage: backend_exit.py [destroy]
"""

import sys

import torch
import torch.distributed as dist

import ddprun.torch  # before torch 2.15 it registers the backend

STARTED = 200

dist.init_process_group("ddprun")
kept = [dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(lambda future: sum(range(1000))) for _ in range(STARTED)]
if sys.argv[1:] == ["destroy"]:
    kept[-1].then(lambda future: dist.destroy_process_group())  # in a call, which cannot wait for itself
    kept.clear()
