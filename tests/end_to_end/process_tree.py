"""The processes of this machine, for tests that look for one below another, or end it."""

import os
import signal


def process_table():
    """pid -> (parent, name, state) of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                    head, _, tail = stat.read().rpartition(")")
            except OSError:
                continue
            state, parent = tail.split()[:2]
            table[int(entry)] = (int(parent), head.partition("(")[2], state)
    return table


def below(root, name):
    """The one process called `name` below `root`."""
    table = process_table()
    found = []
    for pid, (parent, command, _) in table.items():
        if command == name:
            while parent in table and parent != root:
                parent = table[parent][0]
            if parent == root:
                found.append(pid)
    if len(found) != 1:
        raise AssertionError(f"{len(found)} processes called {name}")
    return found[0]


def all_below(root):
    """This process and all below it, parents first."""
    table = process_table()
    found = [root]
    for parent in found:
        found += [pid for pid, (its_parent, _, _) in table.items() if its_parent == parent]
    return found


def kill_if_there(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
