#!/usr/bin/env python3
"""Puts the tables of flags that the programs in BIN_DIR print into their manuals; --check only tells which are old."""

import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGES = {"ddprun": "manual/options.md", "ddpctl": "README.md", "ddpbench": "README.md"}


def main(arguments):
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.exit("usage: flag_tables.py [--check] BIN_DIR")
    old = []
    for name, its_page in PAGES.items():
        page = f"apps/{name}/{its_page}"
        path = os.path.join(ROOT, page)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        table = subprocess.run([os.path.join(folders[0], name), "--print-flags"], capture_output=True, text=True, check=True).stdout
        printed, tables = re.subn(r"(<!-- flags -->\n).*?(<!-- /flags -->)", lambda marks: marks[1] + table + marks[2], text,
                                  flags=re.DOTALL)
        if tables != 1:
            sys.exit(f"{page} has {tables} tables of flags between its marks")
        if printed != text:
            old.append(page)
            if "--check" not in arguments:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(printed)
    if "--check" in arguments and old:
        sys.exit("run scripts/flag_tables.py BIN_DIR; old tables of flags: " + ", ".join(old))


if __name__ == "__main__":
    main(sys.argv[1:])
