#!/usr/bin/env python3
"""Finishes what CPack makes as Debian's policy has it: the licences of what is inside, the changes, compressed manual pages, the trigger
for ldconfig, a bill of materials. The same contents give the same bytes; SOURCE_DATE_EPOCH is the time of all of them."""

import email.utils
import glob
import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "apps", "python"))
import sbom

USAGE = "usage: scripts/cmake/debian_package.py VERSION_TEXT PACKAGE.deb...   (the file with what `ddprun --version` says)"
COPYRIGHT = """ddprun: starts distributed programs. Copyright 2026 The ddprun authors.

License: Apache-2.0, whose text is in /usr/share/common-licenses/Apache-2.0 on Debian systems.

"""
# The last of the licences of what is inside; Debian has its text once for all packages.
OF_ELFUTILS = "elfutils: GNU Lesser General Public License 3, and the GNU General Public License 3 that it is part of\n"
COMMON = "\nTheir texts are in /usr/share/common-licenses/LGPL-3 and /usr/share/common-licenses/GPL-3 on Debian systems.\n"
OVERRIDES = """# The programs run on any distribution, so all but glibc is linked into them; libelf needs zlib for sections that are compressed.
ddprun: embedded-library *zlib*
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def compress(path, name=None):
    """Without the name and the time in it."""
    with open(path, "rb") as file:
        content = file.read()
    with open(os.path.join(os.path.dirname(path), f"{name or os.path.basename(path)}.gz"), "wb") as file:
        file.write(gzip.compress(content, mtime=0))
    os.remove(path)


def document(tree, control, said):
    package, version, maintainer = (re.search(f"^{field}: (.*)$", control, re.MULTILINE)[1] for field in ("Package", "Version", "Maintainer"))
    folder = os.path.join(tree, "usr", "share", "doc", package)
    licences = read(os.path.join(ROOT, "apps", "cli", "licenses.txt")).lstrip()
    write(os.path.join(folder, "copyright"), COPYRIGHT + licences[:licences.index(OF_ELFUTILS)] + OF_ELFUTILS + COMMON)
    if package == "ddprun":
        write(os.path.join(tree, "usr", "share", "lintian", "overrides", package), OVERRIDES)
    date = email.utils.formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    change = f"{package} ({version}) unstable; urgency=medium\n\n  * What has changed is in changelog.gz.\n\n -- {maintainer}  {date}\n"
    write(os.path.join(folder, "changelog.Debian"), change)
    compress(os.path.join(folder, "changelog.Debian"))
    compress(os.path.join(folder, "CHANGELOG.md"), "changelog")
    write(os.path.join(folder, f"{package}.cdx.json"), sbom.bill(said, package, None if package == "ddprun" else sbom.IN_LIBRARY))


def arrange(tree):
    """What lies elsewhere in Debian, or in another form."""
    for page in glob.glob(os.path.join(tree, "usr/share/man/man*/*.[1-9]")):
        compress(page)
        if page.endswith("/ddprun.1"):
            os.symlink("ddprun.1.gz", os.path.join(os.path.dirname(page), "ddprun-launch.1.gz"))
    zsh = os.path.join(tree, "usr/share/zsh")
    if os.path.isdir(os.path.join(zsh, "site-functions")):
        os.rename(os.path.join(zsh, "site-functions"), os.path.join(zsh, "vendor-completions"))
    scripts = [path for name in ("postinst", "postrm") if os.path.exists(path := os.path.join(tree, "DEBIAN", name))]
    if scripts:
        assert all("ldconfig" in read(path) for path in scripts), scripts
        for path in scripts:
            os.remove(path)
        write(os.path.join(tree, "DEBIAN", "triggers"), "activate-noawait ldconfig\n")


def seal(tree):
    """Sums, modes and times."""
    files = sorted(os.path.relpath(os.path.join(at, name), tree) for at, _, names in os.walk(tree) for name in names)
    sums = []
    for name in files:
        path = os.path.join(tree, name)
        if not name.startswith("DEBIAN/") and not os.path.islink(path):
            with open(path, "rb") as file:
                sums.append(f"{hashlib.md5(file.read()).hexdigest()}  {name}\n")
    write(os.path.join(tree, "DEBIAN", "md5sums"), "".join(sums))
    time = int(os.environ["SOURCE_DATE_EPOCH"])
    for at, _, names in os.walk(tree, topdown=False):
        for path in [*(os.path.join(at, name) for name in names), at]:
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.path.isdir(path) or "/bin/" in path[len(tree):] else 0o644)
            os.utime(path, (time, time), follow_symlinks=False)


def finish(package, said):
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "tree")
        subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
        document(tree, read(os.path.join(tree, "DEBIAN", "control")), said)
        arrange(tree)
        seal(tree)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, package], stdout=subprocess.DEVNULL, check=True)


def main(words):
    if len(words) < 2:
        print(USAGE, file=sys.stderr)
        return 2
    for package in words[1:]:
        finish(package, read(words[0]))
    return 0


sys.exit(main(sys.argv[1:]))
