"""`python -m ddprun …` becomes the program `ddprun`, which runs scripts by this Python."""

import os
import sys

from .places import program


def become(name="ddprun"):
    """The program of this name; returns an exit code only where it cannot be executed."""
    if sys.executable and not os.environ.get("PYTHON_EXEC"):
        os.environ["PYTHON_EXEC"] = sys.executable
    try:
        launcher = program(name)
    except FileNotFoundError as error:
        print(f"ddprun: {error}", file=sys.stderr)
        return 71
    # The script of a checkout that is not built, which leads here.
    if os.path.exists(sys.argv[0]) and os.path.samefile(launcher, sys.argv[0]):
        print(f"ddprun: {launcher} leads to a checkout without the program {name}; build it there, or name its build by DDPRUN_BUILD",
              file=sys.stderr)
        return 71
    try:
        os.execv(launcher, [name, *sys.argv[1:]])
    except OSError as error:
        print(f"ddprun: {launcher} cannot be executed: {error.strerror}; the wheel is for glibc 2.28 or newer, and for the processor "
              "that its name tells", file=sys.stderr)
    return 71


def become_ddpctl():
    """The other program of an installed checkout."""
    return become("ddpctl")


if __name__ == "__main__":
    sys.exit(become())
