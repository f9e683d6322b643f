"""What the programs of the suite say of themselves; the suite counts who has said it."""


def ok(name):
    """This rank has done `name`, and its result was right."""
    print(f"ok {name}", flush=True)


def leave():
    """Ends PyTorch's group. A thread of Gloo that is the last to let go of a gathered tensor when Python has ended already aborts
    the process; by the time that all have met again it has let go."""
    import torch.distributed  # JAX's environment has none
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
