"""Nodes for a test that are this machine, each under a name of its own, and a stand-in for ssh that leads to them."""

import os
import shutil
import socket

REMOTE_SHELL = """#!/bin/sh
# Called as ssh is: options, host, command.
set -eu
while :; do
    case "$1" in
        -o | -p | -l) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
host=$1
shift
exec {enter} "$host" sh -c "$*"
"""
ENTER = """#!/bin/sh
# NAME PROGRAM...: runs it under this name; all of them lead to this machine.
set -eu
exec unshare --uts --mount sh -c 'hostname "$1" && mount --bind {hosts} /etc/hosts && shift && exec "$@"' sh "$@"
"""


def missing():
    """Why there can be none here; empty: there can."""
    if os.geteuid() != 0:
        return "only root can give nodes names of their own"
    return "" if shutil.which("unshare") else "unshare is not installed (Debian package util-linux)"


class NamedNodes:
    """In `folder`: the programs `enter` and `remote_shell`."""

    def __init__(self, folder, names, more_hosts=""):
        self.names = names
        hosts, self.enter, self.remote_shell = (os.path.join(folder, name) for name in ("hosts", "enter", "remote_shell"))
        with open(hosts, "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost {socket.gethostname()} {' '.join(names)}\n{more_hosts}")
        self.write_program(self.enter, ENTER.format(hosts=hosts))
        self.write_program(self.remote_shell, REMOTE_SHELL.format(enter=self.enter))

    @staticmethod
    def write_program(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
