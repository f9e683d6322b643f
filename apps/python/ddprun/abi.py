"""The C interface of the collectives (ddprun_collectives.h) by ctypes: only what ddprun.collectives calls of it."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from .places import library


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("operation_timeout_ms", c_int64), ("join_timeout_ms", c_int64), ("leave_timeout_ms", c_int64),
                ("notice_after_ms", c_int64), ("backend", c_int), ("device", c_int), ("reproducible", c_int), ("reserved", c_int)]


class Request(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("operation", c_int), ("type", c_int), ("op", c_int), ("peer", c_int), ("in_", c_void_p),
                ("out", c_void_p), ("count", c_size_t), ("scalar", c_double), ("stream", c_void_p), ("compression", c_int),
                ("timeout_ms", c_int64), ("in_parts", c_void_p), ("out_parts", c_void_p), ("counted", c_int), ("reserved", c_int)]


_comm, _place, _ranks = c_void_p, POINTER(c_void_p), POINTER(c_int)
_CODES = {
    "from_env": [POINTER(Options), _place],
    "connect": [c_char_p, c_int, c_int, POINTER(Options), _place],
    "split": [_comm, c_int, c_int, _place],
    "shrink": [_comm, _ranks, c_size_t, _place],
    "subgroup": [_comm, _ranks, c_size_t, c_char_p, POINTER(Options), _place],
    "finalize": [_comm, c_int64],
    "status": [_comm],
    "abort": [_comm, c_char_p],
    "rank": [_comm],
    "world_size": [_comm],
    "local_rank": [_comm],
    "local_world_size": [_comm],
    "run": [_comm, POINTER(Request)],
    "start_send_tagged": [_comm, c_void_p, c_size_t, c_int, c_uint64, c_int64, _place],
    "start_recv_tagged": [_comm, c_void_p, c_size_t, c_int, c_uint64, c_int64, _place],
    "allocate": [_comm, c_size_t, _place],
    "start": [_comm, POINTER(Request), _place],
    "work_wait": [c_void_p],
    "work_test": [c_void_p],
    "work_source": [c_void_p],
}
_OTHERS = {
    "destroy": (None, [_comm]),
    "buffer_data": (c_void_p, [c_void_p]),
    "buffer_release": (None, [c_void_p]),
    "owns": (c_int, [_comm, c_void_p]),
    "work_release": (None, [c_void_p]),
    "last_error": (c_char_p, []),
    "last_error_culprits": (c_size_t, [_ranks, c_size_t]),
    "code_name": (c_char_p, [c_int]),
}


def load() -> Any:
    """The library, its functions with their types."""
    path = library()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise OSError(f"ddprun: {path} cannot be loaded: {error}; the wheel is for glibc 2.28 or newer, and for the processor "
                      "that its name tells") from None
    for name, parameters in _CODES.items():
        function = getattr(loaded, f"ddprun_{name}")
        function.restype, function.argtypes = c_int, parameters
    for name, (result, parameters) in _OTHERS.items():
        function = getattr(loaded, f"ddprun_{name}")
        function.restype, function.argtypes = result, parameters
    return loaded
