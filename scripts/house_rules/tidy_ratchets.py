"""Ratchets: what is known to be wrong in many places, counted; a count may only fall. What is mended lowers the figure here.

Un-merging is no project: whoever touches such a file parts it.
"""

import os
import re

import tidy_language
import tidy_names
from tidy_cpp import code_only, includes, members, types

PRODUCTION = re.compile(r"(apps|launcher|rendezvous|collectives)/.*\.(cpp|hpp)$")
FEW_FUNCTIONS = 4
LONG_UNIT = 700
WIDE = 110


def production(tree):
    return {path: text for path, text in tree.items() if PRODUCTION.match(path)}


def crowded_headers(tree):
    """Headers with two classes or more of which each has FEW_FUNCTIONS with a body, there or in the source of that name."""
    for path, text in production(tree).items():
        if not path.endswith(".hpp"):
            continue
        owners = [owner for file in (path, path[:-3] + "cpp") if file in tree for owner, _, _ in members(code_only(tree[file]))]
        classes = [name for _, _, name in types(code_only(text)) if owners.count(name) >= FEW_FUNCTIONS]
        if len(classes) > 1:
            yield path, ", ".join(classes)


def seams(tree):
    """Sources with two anonymous namespaces or more: files that were joined."""
    for path, text in production(tree).items():
        count = len(re.findall(r"^namespace \{$", text, re.M))
        if count > 1:
            yield path, f"{count} anonymous namespaces"


def long_units(tree):
    lengths = {}
    for path, text in production(tree).items():
        unit = os.path.splitext(path)[0]
        lengths[unit] = lengths.get(unit, 0) + text.count("\n")
    for unit, lines in lengths.items():
        if lines > LONG_UNIT:
            yield unit, f"{lines} lines"


def wide_lines(tree):
    for path, text in production(tree).items():
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > WIDE:
                yield f"{path}:{number}", f"{len(line)} columns"


def purity(header, text):
    """What a header's first comment promises by the word "Pure": "all", "most" (but for what it names), or nothing."""
    opening = re.match(r"\s*(?:#pragma once\s*)?((?:(?://[^\n]*|#include[^\n]*)?\n)*)", text).group(1)
    if not header.endswith(".hpp") or not re.search(r"\bPure\b(?! virtual)", opening):
        return ""
    return "most" if re.search(r"\bPure,?\s+(//\s+)?but for\b", opening) else "all"


def reached_libraries(tree):
    """Headers that say they are pure, and reach Asio or logging by what they include."""
    def reach(path, seen):
        for _, _, name in includes(tree[path]):
            if name in tree and name not in seen:
                seen.add(name)
                reach(name, seen)
        return seen

    for path, text in production(tree).items():
        if not purity(path, text):
            continue
        for other in sorted(reach(path, set())):
            found = [name for _, _, name in includes(tree[other])
                     if name.startswith(("boost/asio", "boost/process", "boost/beast", "spdlog/")) and not name.startswith("boost/asio/ip/address")]
            if found:
                yield path, f"{other} includes <{found[0]}>"
                break


# What is counted, and how often it is there.
RATCHETS = (
    (crowded_headers, "headers with two classes of four functions or more", 21),
    (seams, "sources with two anonymous namespaces or more", 34),
    (long_units, "units over 700 lines", 0),
    (wide_lines, "lines over 110 columns", 58),
    (tidy_names.wide_classes, "classes of too many functions with their bases' and friends'", 4),
    (tidy_language.pronouns, "sentences of headers that begin with a pronoun", 0),
    (tidy_language.persons, "pronouns of persons in headers' comments", 9),
    (tidy_language.unnamed, "comments of headers that do not name what is declared below them", 7),
    (reached_libraries, "pure headers that reach Asio or logging at second hand", 4),
)
SHOWN = 5
HERE = "scripts/house_rules/tidy_ratchets.py"


def ratchets(tree):
    for count, what, figure in RATCHETS:
        found = sorted(count(tree))
        if len(found) > figure:
            places = "; ".join(f"{place} ({why})" for place, why in found[:SHOWN])
            yield HERE, 1, f"{len(found)} {what}, {figure} are known: {places}{' …' if len(found) > SHOWN else ''}"
        # A part of the tree has fewer.
        if len(found) < figure and HERE in tree:
            yield HERE, 1, f"{len(found)} {what} are left of {figure}: lower the figure"
