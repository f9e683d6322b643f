"""`python -m ddprun.torch build`: makes the extension for this torch now, for the cache. For packages, `build FOLDER` makes it in FOLDER/TAG,
for this Python or that of --python, with what else is to be linked."""

import os
import shutil
import subprocess
import sys

from . import build

USAGE = "usage: python -m ddprun.torch build [FOLDER [--python PYTHON] [LINKED...]]"


def _keep(folder):
    build.make(folder)
    return os.path.join(folder.path, build.kept_name())


def _put(folder, python, linked):
    target = os.path.join(folder, build.tag(build.python_of(python)[1]), f"{build.NAME}.so")
    with build.made(None, python, linked) as made:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.move(made, target)
    return target


def main(words):
    if words in (["-h"], ["--help"], ["build", "--help"]):
        print(f"{USAGE}\n{__doc__}")
        return 0
    folder, *linked = words[1:] or [None]
    if words[:1] != ["build"] or (folder or "").startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    python = None
    if linked[:1] == ["--python"] and len(linked) > 1:
        _, python, *linked = linked
    try:
        print(build.in_a_folder(_keep) if folder is None else _put(folder, python, linked))
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


sys.exit(main(sys.argv[1:]))
