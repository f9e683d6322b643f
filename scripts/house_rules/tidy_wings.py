"""The wings of the rooms: which folder may include which, and that nothing goes in circles.

A wing is a folder inside a room. It includes itself and the wings in its row, which stand before it: so a wing never
includes one above it. A row that nothing uses is a complaint, too.
"""

import os
import re

from tidy_cpp import includes

# What every wing of the rendezvous may include, in this order among themselves.
GROUND = ("rendezvous/base", "rendezvous/text", "rendezvous/system")
# Wing -> wings of the same room that it may include. Files directly in launcher/ are what its wings share.
WINGS = {
    # What everybody stands on, a library of its own (ddprun_base): the collectives include these.
    **{wing: GROUND[:place] for place, wing in enumerate(GROUND)},
    "rendezvous/codec": (),
    "rendezvous/net": (),
    "rendezvous/worker": ("rendezvous/net",),
    "rendezvous/store": ("rendezvous/net",),
    # The coordinator's world.
    "rendezvous/job": ("rendezvous/codec",),
    "rendezvous/secure": (),
    "rendezvous/door": ("rendezvous/net", "rendezvous/secure", "rendezvous/store"),
    "rendezvous/membership": ("rendezvous/job",),
    "rendezvous/etcd": ("rendezvous/codec", "rendezvous/net", "rendezvous/membership"),
    "rendezvous/control": ("rendezvous/codec", "rendezvous/job", "rendezvous/membership",
                           "rendezvous/net", "rendezvous/secure", "rendezvous/store"),
    "rendezvous/coordinator": ("rendezvous/codec", "rendezvous/job", "rendezvous/membership",
                               "rendezvous/net", "rendezvous/worker", "rendezvous/control"),
    "rendezvous/server": ("rendezvous/net", "rendezvous/secure", "rendezvous/store", "rendezvous/door",
                          "rendezvous/control", "rendezvous/coordinator"),
    "rendezvous/link": ("rendezvous/codec", "rendezvous/membership",
                        "rendezvous/net", "rendezvous/secure", "rendezvous/door", "rendezvous/control",
                        "rendezvous/coordinator", "rendezvous/server", "rendezvous/etcd"),

    "launcher": (),
    "launcher/cluster": ("launcher",),
    "launcher/plan": ("launcher",),
    "launcher/look": (),
    "launcher/process": ("launcher", "launcher/look"),
    "launcher/look/waits": ("launcher/look",),
    "launcher/look/native": ("launcher/look",),
    "launcher/guardian": ("launcher/process",),
    "launcher/output": ("launcher", "launcher/process"),
    "launcher/report": ("launcher",),
    "launcher/stop": (),
    "launcher/round": ("launcher/process", "launcher/output", "launcher/report", "launcher/stop"),
    "launcher/doctor": ("launcher", "launcher/cluster", "launcher/plan", "launcher/process"),
    "launcher/join": ("launcher", "launcher/cluster", "launcher/output"),
    "launcher/verdict": ("launcher", "launcher/look", "launcher/look/waits"),
    "launcher/agent": ("launcher", "launcher/cluster", "launcher/plan", "launcher/process", "launcher/guardian",
                       "launcher/output", "launcher/report", "launcher/stop", "launcher/round", "launcher/join",
                       "launcher/verdict"),
    "launcher/jobs": ("launcher", "launcher/process"),
    "launcher/view": ("launcher", "launcher/output", "launcher/verdict"),
    "launcher/watch": ("launcher/look", "launcher/look/native", "launcher/look/waits", "launcher/process",
                       "launcher/verdict", "launcher/agent", "launcher/view", "launcher"),
    "launcher/features": ("launcher", "launcher/look", "launcher/process", "launcher/output", "launcher/doctor", "launcher/agent",
                          "launcher/jobs", "launcher/view", "launcher/verdict", "launcher/watch"),
    "launcher/start": ("launcher", "launcher/cluster", "launcher/plan", "launcher/process", "launcher/output"),

    "collectives/values": (),
    "collectives/call": ("collectives/values",),
    "collectives/arithmetic": ("collectives/values", "collectives/call"),
    "collectives/wire": ("collectives/call",),
    "collectives/liveness": ("collectives/call", "collectives/wire"),
    "collectives/tcp": ("collectives/call", "collectives/arithmetic", "collectives/wire", "collectives/liveness"),
    "collectives/shm": ("collectives/call", "collectives/arithmetic", "collectives/wire", "collectives/liveness",
                        "collectives/tcp"),
    "collectives/messages": ("collectives/values", "collectives/call", "collectives/wire", "collectives/liveness",
                             "collectives/tcp", "collectives/shm"),
    "collectives/hosts": ("collectives/arithmetic", "collectives/tcp", "collectives/shm"),
    "collectives/nccl": ("collectives/values", "collectives/call", "collectives/wire", "collectives/tcp",
                         "collectives/shm"),
    "collectives/session": ("collectives/values", "collectives/call", "collectives/arithmetic", "collectives/wire",
                            "collectives/liveness", "collectives/tcp", "collectives/shm", "collectives/messages",
                            "collectives/hosts", "collectives/nccl"),
    # The face: what users include, and the sources behind it.
    "collectives": ("collectives/values", "collectives/call", "collectives/messages", "collectives/session"),

    # The programs. ddprun's modes stand above all else of it, and its main above them.
    "apps/cli": (),
    "apps/glibc": (),
    "apps/ddpbench": ("apps/cli",),
    "apps/ddpctl": ("apps/cli",),
    "apps/ddprun/options": ("apps/cli",),
    "apps/ddprun/plan": ("apps/ddprun/options",),
    "apps/ddprun/modes": ("apps/cli", "apps/ddprun/options", "apps/ddprun/plan"),
    "apps/ddprun": ("apps/cli", "apps/ddprun/plan", "apps/ddprun/modes"),
    "apps/python/ddprun/torch/extension": (),
    "apps/train_digits": (),
    "apps/train_digits_gpu": ("apps/train_digits",),
}

# Public headers that the wings below the face are made of.
VALUES = {f"collectives/{name}.hpp" for name in (
    "error", "float16", "key_value_store", "operation_request", "options", "shared_buffer", "status", "types", "work")}

MAX_FOLDER_FILES = 30
MAX_TEST_FOLDER_FILES = 40  # and of scripts: one folder is what ctest or a user looks into


def wing_of(path):
    return "collectives/values" if path in VALUES else os.path.dirname(path)


def wing_direction(tree):
    used = set()
    for path, text in tree.items():
        room = path.split("/", 1)[0]
        if not path.endswith((".hpp", ".cpp", ".h")) or room not in ("launcher", "rendezvous", "collectives", "apps"):
            continue
        wing = wing_of(path)
        if wing not in WINGS:
            yield path, 1, f"{wing}/ is no wing of tidy_wings.py"
            continue
        for line, _, name in includes(text):
            other = wing_of(name)
            if name not in tree or other == wing or other.split("/", 1)[0] != room:
                continue
            used.add((wing, other))
            if other not in WINGS[wing] and (wing in GROUND or other not in GROUND):
                yield path, line, f'{wing} must not include {other} ("{name}")'
    present = {wing_of(path) for path in tree}
    for wing, row in WINGS.items():
        for other in row:
            if wing in present and wing not in GROUND and (wing, other) not in used:
                yield "scripts/house_rules/tidy_wings.py", 1, f"{wing} may include {other}, and does not"


def circles(graph):
    """Groups of nodes that reach each other, as sorted lists."""
    reach = {}

    def reached_from(start):
        if start not in reach:
            seen, ahead = set(), [start]
            while ahead:
                for other in graph.get(ahead.pop(), ()):
                    if other not in seen:
                        seen.add(other)
                        ahead.append(other)
            reach[start] = seen
        return reach[start]

    found = set()
    for node in graph:
        if node in reached_from(node):
            found.add(tuple(sorted(other for other in reached_from(node) if node in reached_from(other))))
    return sorted(found)


def no_circles(tree):
    """Units (a header and the source of its name) and wings include each other in one direction only."""
    units, folders = {}, {}
    for path, text in tree.items():
        if not re.match(r"(launcher|rendezvous|collectives|apps)/.*\.(hpp|cpp|h)$", path):
            continue
        unit = os.path.splitext(path)[0]
        for _, _, name in includes(text):
            if name in tree and os.path.splitext(name)[0] != unit:
                units.setdefault(unit, set()).add(os.path.splitext(name)[0])
            if name in tree and wing_of(name) != wing_of(path):
                folders.setdefault(wing_of(path), set()).add(wing_of(name))
    for graph in (units, folders):
        for circle in circles(graph):
            yield circle[0], 1, "includes go in a circle: " + ", ".join(circle)


def folder_size(tree):
    counts = {}
    for path in tree:
        counts[os.path.dirname(path)] = counts.get(os.path.dirname(path), 0) + 1
    for folder, count in counts.items():
        most = MAX_TEST_FOLDER_FILES if folder.startswith(("tests", "scripts")) else MAX_FOLDER_FILES
        if folder and count > most:
            yield folder, 1, f"{count} files, the stop is {most}: sort them into folders"
