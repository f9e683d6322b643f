"""PyTorch's process groups on ddprun's collectives: the backend `ddprun` for CPU tensors.

    import ddprun.torch                      # torch 2.15 and newer find it without
    torch.distributed.init_process_group("ddprun")

Importing this registers the backend, and loads nothing else: what fits this version of torch is loaded, or made, when the
first group is made.
"""

import atexit
import functools
import os

try:
    import torch
    import torch.distributed
except ImportError as error:
    raise ImportError(f"ddprun.torch needs PyTorch: {error}") from None

from . import build, late

OLDEST = (2, 9)

__all__ = ["mapped", "register"]


def _refusal():
    """Why this torch has no such backend, or nothing."""
    if not torch.distributed.is_available():
        return "this PyTorch was built without torch.distributed, so there is no backend `ddprun` for it"
    if build.version()[:2] < OLDEST:
        return f"ddprun.torch needs PyTorch {'.'.join(map(str, OLDEST))} or newer; this is {torch.__version__}"
    return None


@functools.lru_cache(maxsize=None)
def extension():
    """What fits this torch, loaded once; raises RuntimeError."""
    return build.load()


def _unwrapped(backend):
    """What is inside of the one that TORCH_DISTRIBUTED_DEBUG=DETAIL puts around each."""
    return getattr(backend, "wrapped_pg", backend)


def _ours(group):
    """The group's backend, where it is one of ours."""
    try:
        backend = group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):
        return None
    backend = _unwrapped(backend)
    return backend if isinstance(backend, extension().Group) else None


def _parents(ranks):
    """The backends that have all these ranks, of the default group and of others as they were made, and the ranks' numbers there."""
    for group, numbers in list(torch.distributed.distributed_c10d._world.pg_group_ranks.items()) if ranks else ():
        if all(rank in numbers for rank in ranks) and (backend := _ours(group)):
            yield backend, [numbers[rank] for rank in ranks]


def _create(options, _backend_options):
    # DDP asks for memory for its buckets only then. What NCCL does with those on GPUs is not changed here.
    if not torch.cuda.device_count():
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    if not extension.cache_info().currsize:
        with late.making(options.store, options.group_rank):
            try:
                extension()
            except RuntimeError as error:
                # The sentence says all; where in here it comes from would drown it.
                raise RuntimeError(str(error)) from None
    ranks, reconfigured = list(options.global_ranks_in_group), getattr(options, "enable_reconfigure", False)

    def make(parent, numbers, limit=options.timeout):
        return extension().make(options.store, options.group_rank, options.group_size, limit, options.group_id, ranks, reconfigured,
                                parent, numbers)

    # One that a member has left already cannot be used by any of them; at last they meet over the store.
    if made := next(filter(None, (make(*parent) for parent in _parents(ranks))), None):
        return made
    limit = options.timeout if reconfigured else late.meeting_limit(options.store, options.group_rank, options.group_size, options.timeout)
    made = make(None, [], limit)
    if limit != options.timeout:
        made._set_default_timeout(options.timeout)
    return made


def mapped(*size, dtype=None, group=None):
    """A tensor of zeros, as torch.zeros(*size, dtype=dtype) gives, in memory that operations of `group` use without copying it first.
    Nobody else takes part in that. DDP's buckets are there by themselves."""
    shape = torch.empty(*size, dtype=dtype, device="meta")
    backend = _unwrapped((group or torch.distributed.distributed_c10d._get_default_group())._get_backend(torch.device("cpu")))
    return backend.allocate_tensor(shape.numel(), dtype=shape.dtype, device=torch.device("cpu")).view(shape.shape)


def _await_calls():
    """As Python ends: for what the library's threads call in it. No group is ended, since a thread may be in an operation."""
    if not extension.cache_info().currsize:
        return
    for group in list(torch.distributed.distributed_c10d._world.pg_map):
        if backend := _ours(group):
            backend._await_calls()


def register():
    """Makes the backend known to torch.distributed; once is enough. Torch calls this by the entry point `torch.distributed.backends`."""
    if "DDPRUN" not in torch.distributed.Backend._plugins:
        torch.distributed.Backend.register_backend("ddprun", _create, extended_api=True, devices=["cpu"])
        atexit.register(_await_calls)


if (refusal := _refusal()) is not None:
    raise ImportError(refusal)
register()
