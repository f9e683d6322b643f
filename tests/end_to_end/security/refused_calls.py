"""System calls that the kernel refuses to a program and its children, as a container's filter does."""

import ctypes
import errno
import platform
import struct

SINCE_5 = {"pidfd_send_signal": 424, "pidfd_open": 434, "clone3": 435, "close_range": 436}  # on all machines alike
CALLS = {
    "x86_64": {"clone": 56, "getrandom": 318, "eventfd2": 290, "epoll_create1": 291, "accept4": 288, "socket": 41, **SINCE_5},
    "aarch64": {"clone": 220, "getrandom": 278, "eventfd2": 19, "epoll_create1": 20, "accept4": 242, "socket": 198, **SINCE_5},
}.get(platform.machine())

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
LOAD, JUMP_IF_EQUAL, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, FIRST_ARGUMENT, THIRD_ARGUMENT = 0, 16, 32  # where the filter finds them
NETLINK_SOCK_DIAG = 4
CLONE_THREAD = 0x10000


def _install(program):
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]

    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    filter_ = Filter(len(program), code)
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _refusal(name, error):
    return (JUMP_IF_EQUAL, 0, 1, CALLS[name]), (RETURN, 0, 0, REFUSE | error)


def refuse(name, error=errno.EPERM):
    """For preexec_fn: this call fails from now on."""
    return lambda: _install([(LOAD, 0, 0, NUMBER), *_refusal(name, error), (RETURN, 0, 0, ALLOW)])


def refuse_what_is_new(error=errno.ENOSYS):
    """For preexec_fn: a kernel before Linux 5, by what it says; a container's filter may say another error, but of clone3, for
    which glibc would have no other way then."""
    says = {**dict.fromkeys(SINCE_5, error), "clone3": errno.ENOSYS}
    refusals = [step for name in SINCE_5 for step in _refusal(name, says[name])]
    return lambda: _install([(LOAD, 0, 0, NUMBER), *refusals, (RETURN, 0, 0, ALLOW)])


def refuse_threads():
    """For preexec_fn: no other thread, but children."""
    return lambda: _install([
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 1, CALLS["clone3"]),  # glibc goes on with clone
        (RETURN, 0, 0, REFUSE | errno.ENOSYS),
        (JUMP_IF_EQUAL, 0, 3, CALLS["clone"]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_ANY_BIT, 0, 1, CLONE_THREAD),
        (RETURN, 0, 0, REFUSE | errno.EAGAIN),
        (RETURN, 0, 0, ALLOW)])


def refuse_socket_owners():
    """For preexec_fn: the kernel does not say whose a connection is."""
    return lambda: _install([
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 3, CALLS["socket"]),
        (LOAD, 0, 0, THIRD_ARGUMENT),
        (JUMP_IF_EQUAL, 0, 1, NETLINK_SOCK_DIAG),
        (RETURN, 0, 0, REFUSE | errno.EPROTONOSUPPORT),
        (RETURN, 0, 0, ALLOW)])
