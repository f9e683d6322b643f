"""Programs that install wheels, in an environment of their own below the build: made once."""

import os
import subprocess
import sys

NAMES = ("uv", "pipx", "auditwheel", "build")


def folder(build):
    """Where they are, None where they cannot be had."""
    tools = os.path.join(build, "package-tools")
    complete = os.path.join(tools, f"complete-{'-'.join(NAMES)}")
    if not os.path.exists(complete):
        subprocess.run([sys.executable, "-m", "venv", "--clear", tools], check=True)
        if subprocess.run([os.path.join(tools, "bin", "pip"), "install", "-q", *NAMES], timeout=600, check=False).returncode != 0:
            return None
        with open(complete, "w", encoding="ascii"):
            pass
    return os.path.join(tools, "bin")
