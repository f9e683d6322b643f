#!/bin/bash
# One job of ddprun on all nodes of an LSF allocation, with a worker for each GPU:
#
#   bsub < lsf.sh
#
# Copy it and change the lines that begin with #BSUB, and those that are marked by "yours". LSF starts this script on the first
# node; ddprun reaches the others by blaunch, so that LSF knows what runs there.

# Slots are workers: two hosts, and on each one for each of 8 GPUs.
#BSUB -n 16
#BSUB -R "span[ptile=8]"
#BSUB -gpu "num=8"
#BSUB -x
#BSUB -W 24:00
#BSUB -o train.%J
# The program starts from its last checkpoint: LSF queues the job again where ddprun says that all workers have saved (75).
#BSUB -Q "75"
set -euo pipefail

[[ $# -gt 0 ]] || set -- python3 train.py  # yours

# Ten minutes before the limit of -W all workers get SIGTERM. A program that then writes a checkpoint and ends with 0 makes the
# exit code 75. LSF itself sends SIGINT and SIGTERM (bkill), which exec lets through, and then SIGKILL.
exec ddprun --time-limit 1430m --grace 300 "$@"
