#!/bin/bash
# One job of ddprun on all nodes of a PBS allocation (OpenPBS, PBS Pro), with a worker for each GPU:
#
#   qsub pbs.sh
#
# Copy it and change the lines that begin with #PBS, and those that are marked by "yours". PBS starts this script on the first
# node; ddprun reaches the others by ssh, which must not ask for a password between nodes.

# mpiprocs is the number of workers on a node.
#PBS -l select=2:ncpus=16:ngpus=8:mpiprocs=8
#PBS -l place=scatter:excl
#PBS -l walltime=24:00:00
#PBS -j oe
# The program starts from its last checkpoint, so that PBS may run the job again.
#PBS -r y
set -euo pipefail

cd "$PBS_O_WORKDIR"
[[ $# -gt 0 ]] || set -- python3 train.py  # yours

# Ten minutes before the walltime all workers get SIGTERM. A program that then writes a checkpoint and ends with 0 makes the exit
# code 75: submit the job again. PBS itself sends SIGTERM (qdel), which exec lets through, and SIGKILL after its kill_delay.
exec ddprun --time-limit 1430m --grace 300 "$@"
