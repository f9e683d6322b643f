"""What the linker and the compiler put into a file of machine code against those who attack it, by what readelf says."""

import re
import subprocess


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def missing(path):
    """The guards that a program or shared library lacks."""
    said = subprocess.run(["readelf", "--wide", "-h", "-l", "-d", "--dyn-syms", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    guards = {"BIND_NOW": re.search(r"FLAGS.*\b(BIND_NOW|NOW)\b", said), "RELRO": "GNU_RELRO" in said, "PIE": re.search(r"Type:\s+DYN", said),
              "no executable stack": re.search(r"GNU_STACK\s.*\sRW\s", said), "no text relocations": "TEXTREL" not in said,
              "no run path": not re.search("RPATH|RUNPATH", said), "stack protector": "__stack_chk_fail" in said, "fortify": re.search(r"__\w+_chk\b", said)}
    return [name for name, has in guards.items() if not has]
