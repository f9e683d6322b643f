"""Metrics averaged over ranks: each rank evaluates its share, and all get the mean over all samples."""

import torch
import torch.distributed as dist


def averaged(sums, count):
    """The mean over all ranks' samples. Ranks may have different numbers of them, so sums are added, and not means."""
    together = torch.tensor([*sums.values(), count], dtype=torch.float64)
    dist.all_reduce(together)
    return dict(zip(sums, (together[:-1] / together[-1]).tolist()))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    scores = torch.arange(10, dtype=torch.float64)[rank::world]  # this rank's share of ten samples
    metrics = averaged({"score": scores.sum().item(), "above 4": (scores > 4).sum().item()}, len(scores))
    print(f"rank {rank}: {len(scores)} samples, score {metrics['score']:.2f}, above 4: {metrics['above 4']:.0%}")
    dist.barrier()  # Nobody leaves before all have their metrics.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
