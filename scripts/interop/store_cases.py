"""Every verb of PyTorch's store client against ddprun's store and PyTorch's own servers, side by side.

Where ddprun differs from PyTorch's default server there is a row in the table of scripts/README.md, and only there.
"""

import json
import os
import re

from jobs import ROOT, tail

BEGIN, END = "<!-- store differences -->", "<!-- /store differences -->"


def told_differences():
    """The probes that the README's table names."""
    with open(os.path.join(ROOT, "scripts", "README.md"), encoding="utf-8") as file:
        table = file.read().partition(BEGIN)[2].partition(END)[0]
    return {row[1].strip() for row in re.finditer(r"^\| ([^|]+) \|", table, re.M)} - {"probe"}


def store_verbs(results, setting):
    launchers = setting.run([], "store_side_by_side.py")
    lines = [line for line in launchers[0].seen["out"] if line.startswith("outcomes ")]
    if launchers[0].code != 0 or not lines:
        results.note(setting.title("store verbs"), f"no outcomes, exit code {launchers[0].code}", tail(launchers))
        return
    seen = json.loads(lines[0].partition(" ")[2])
    told = told_differences()
    for name, by_server in seen["outcomes"].items():
        peers = {server: what for server, what in by_server.items() if server != "ddprun"}
        ours, default = by_server["ddprun"], next(iter(peers.values()))
        differs = ours != default
        complaint = None
        if ours != default and name not in told:
            complaint = f"ddprun {ours}, " + ", ".join(f"PyTorch's {server} {what}" for server, what in peers.items())
        elif not differs and name in told and len(peers) > 1:
            complaint = "the table of scripts/README.md says that it differs, and it does not"
        known = " (differs, see scripts/README.md)" if differs and not complaint else ""
        results.note(setting.title(f"store: {name}{known}"), complaint)
    for name in seen["left_out"]:
        results.skip(setting.title(f"store: {name}"), "this client does not have the verb")
