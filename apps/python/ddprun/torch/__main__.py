"""`python -m ddprun.torch build [FOLDER]`: makes the extension for this torch now, for the cache or into FOLDER."""

import os
import sys

from . import build

USAGE = "usage: python -m ddprun.torch build [FOLDER]"


def main(words):
    if not words or words[0] != "build" or len(words) > 2:
        print(USAGE, file=sys.stderr)
        return 2
    target = build.kept() if len(words) == 1 else os.path.join(words[1], os.path.basename(os.path.dirname(build.shipped())), f"{build.NAME}.so")
    try:
        build.compile_to(target)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(target)
    return 0


sys.exit(main(sys.argv[1:]))
