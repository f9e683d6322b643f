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
    unproven = seen["unproven"]
    results.note(setting.title("store: every verb has a probe"), f"none: {', '.join(unproven)}" if unproven else None)
    told = told_differences()
    for name, by_server in seen["by_probe"].items():
        ours, default = by_server["ddprun"], by_server["libuv"]
        complaint = None
        if "hangs" in ours:
            complaint = f"it hangs: {by_server}"
        elif ours != default and name not in told:
            complaint = ", ".join(f"{server}: {what}" for server, what in by_server.items())
        elif ours == default and name in told:
            complaint = "the table of scripts/README.md says that it differs, and it does not"
        known = " (differs, see scripts/README.md)" if ours != default and not complaint else ""
        results.note(setting.title(f"store: {name}{known}"), complaint)
