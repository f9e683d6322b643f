"""Where the elements of an array lie: by the buffer protocol (NumPy, array, bytearray, memoryview) or by DLPack (PyTorch, JAX)."""

import ctypes
from typing import Any, List, Tuple

# The C interface's element types, by kind and bytes.
TYPES = {("f", 4): 0, ("f", 8): 1, ("i", 4): 2, ("i", 8): 3, ("i", 1): 4, ("u", 1): 5, ("u", 4): 6, ("u", 8): 7, ("f", 2): 8, ("bf", 2): 9}
_FORMATS = {"e": "f", "f": "f", "d": "f", "?": "u", "c": "u", **dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u")}
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "u"}
_DLPACK_BOOL = 6
_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost


class _Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_Buffer)], None
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class Memory:
    """The elements of one array, which stay where they are as long as this is there."""

    __slots__ = ("address", "count", "type", "bytes_each", "truth", "_kept")

    def __init__(self, data: Any, name: str, writable: bool) -> None:
        """Raises ValueError, which names the argument, for what has no such elements."""
        try:
            view = memoryview(data)
        except (TypeError, BufferError, ValueError) as error:
            if hasattr(data, "__dlpack__") and isinstance(error, TypeError):
                self._take_dlpack(data, name)
            else:
                raise _no_array(name, writable, error) from None
        else:
            self._take_buffer(view, name, writable)

    def _set_type(self, kind: str, size: int, name: str, said: str) -> None:
        if (kind, size) not in TYPES:
            raise ValueError(f"{name}: elements of type {said} cannot be reduced or sent")
        self.type, self.bytes_each = TYPES[kind, size], size

    def _take_buffer(self, view: memoryview, name: str, writable: bool) -> None:
        if not view.c_contiguous or (writable and view.readonly):
            raise _no_array(name, writable, "it is read-only" if view.c_contiguous else "it has gaps")
        # In the machine's own order of bytes, one element of one number.
        self._set_type(_FORMATS.get(view.format.lstrip("@=<"), ""), view.itemsize, name, repr(view.format))
        self.truth = view.format.endswith("?")
        self.count = view.nbytes // view.itemsize
        if view.readonly or self.count == 0:
            self._kept: Any = view
            self.address = _address(view)
        else:
            self._kept = ctypes.c_char.from_buffer(view)
            self.address = ctypes.addressof(self._kept)

    def _take_dlpack(self, data: Any, name: str) -> None:
        try:
            # Of a tensor that has gradients, its values.
            capsule = (data.detach() if hasattr(data, "detach") else data).__dlpack__()
            pointer = _capsule_pointer(capsule, b"dltensor")
        except Exception as error:
            raise ValueError(f"{name}: cannot be read ({error})") from None
        tensor = ctypes.cast(pointer, ctypes.POINTER(_DLTensor)).contents
        self._kept = (data, capsule)
        if tensor.device[0] not in _HOST_DEVICES:
            raise ValueError(f"{name}: must be in the host's memory, not on a device")
        shape = [tensor.shape[i] for i in range(tensor.ndim)]
        if tensor.strides and 0 not in shape and not _is_contiguous(shape, [tensor.strides[i] for i in range(tensor.ndim)]):
            raise ValueError(f"{name}: must be contiguous")
        kind = _DLPACK_KINDS.get(tensor.code, "") if tensor.lanes == 1 else ""
        self._set_type(kind, tensor.bits // 8, name, str(getattr(data, "dtype", "unknown")))
        self.truth = tensor.code == _DLPACK_BOOL
        self.address, self.count = (tensor.data or 0) + tensor.byte_offset, 1
        for length in shape:
            self.count *= length


def _no_array(name: str, writable: bool, why: object) -> ValueError:
    return ValueError(f"{name}: must be an array{' that can be written' if writable else ''}, its elements one behind the other ({why})")


def _address(view: memoryview) -> int:
    """Of memory that may not be written, for as long as the view is there."""
    buffer = _Buffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    address = int(buffer.buf or 0)
    _release_buffer(ctypes.byref(buffer))
    return address


def _is_contiguous(shape: List[int], strides: List[int]) -> bool:
    expected = 1
    dimensions: List[Tuple[int, int]] = list(zip(shape, strides))
    for length, stride in reversed(dimensions):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True
