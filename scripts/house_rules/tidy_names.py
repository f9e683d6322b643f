"""Names: each room has a namespace, in it a name is one type, and a class is no room.

Two types of one name in one namespace share their destructor where both rooms are linked: the linker takes one of them.
"""

import re

from tidy_cpp import code_only, members, types

# The rooms, as beginnings of paths, the longest that fits counts; what the collectives show is in ddprun itself.
NAMESPACES = {
    "apps/": "ddprun::inline app",
    "launcher/": "ddprun::inline launch",
    "rendezvous/": "ddprun::inline job",
    **{f"rendezvous/{wing}/": "ddprun::inline base" for wing in ("base", "text", "system", "codec", "net", "worker", "store")},
    "collectives/": "ddprun",
}
BELOW_THE_FACE = re.compile(r"collectives/\w+/")
MAX_MEMBER_FUNCTIONS = 40


def namespace_of(path):
    if BELOW_THE_FACE.match(path):
        return "ddprun::inline detail"
    return NAMESPACES.get(max((room for room in NAMESPACES if path.startswith(room)), key=len, default=""))


def block_from(code, start):
    """What stands between the brace that opens before `start` and the one that closes it."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return code[start:brace.start()]
    return code[start:]


def room_namespace(tree):
    """A file defines things in its room's namespace; of another room's it declares, or specializes a template. Namespaces are
    opened one by one: readers of C++ that know no `namespace a::inline b` (ctags, editors) would see nothing in it."""
    for path, text in tree.items():
        own = namespace_of(path)
        if own is None or not path.endswith((".hpp", ".cpp", ".cu", ".cuh")):
            continue
        code = code_only(text)
        opened = list(re.finditer(r"^namespace (ddprun[\w: ]*?) \{(?:\n((?:inline )?)namespace (\w+) \{)?$", code, re.M))
        for block in opened:
            name = f"{block[1]}::{block[2]}{block[3]}" if block[3] else block[1]
            line = code.count("\n", 0, block.start()) + 1
            body = block_from(code, block.end())
            if "::" in block[1]:
                yield path, line, f"opens {block[1]} at once: open each namespace by itself"
            elif name != own and "{" in body and not re.search(r"^template <>$", body, re.M):
                yield path, line, f"defines names in {name}: this room's namespace is {own}"
        begun = {part for block in opened for part in (block[1], block[3])}
        for end in re.finditer(r"^\}  // namespace (\w.*)$", text, re.M):
            if opened and end[1] not in begun and not re.search(rf"^(inline )?namespace {re.escape(end[1])} \{{$", code, re.M):
                yield path, text.count("\n", 0, end.start()) + 1, f"the end of a namespace that does not begin here: {end[1]}"


def one_type(tree):
    """One type for each name of a namespace, over all rooms."""
    homes = {}
    for path, text in sorted(tree.items()):
        if namespace_of(path) is None or not path.endswith((".hpp", ".cpp", ".cu", ".cuh", ".h")):
            continue
        for line, namespace, name in types(code_only(text)):
            other = homes.setdefault((namespace, name), path)
            if other != path:
                yield path, line, f"{namespace}::{name} is another type in {other}"


def functions_of_classes(tree):
    """Where each class defines its member functions, in its body and outside of it, by (its home, its name). A class of a source
    has its functions there."""
    counted = {}
    for path, text in sorted(tree.items()):
        if namespace_of(path) is None or not path.endswith((".cpp", ".hpp")):
            continue
        found = members(code_only(text))
        local = {owner for owner, _, is_inside in found if is_inside and path.endswith(".cpp")}
        for owner, line, _ in found:
            home = path if owner in local else namespace_of(path)
            counted.setdefault((home, owner), []).append((path, line))
    return counted


def class_size(tree):
    """A class has few member functions of its own; wide_classes counts those that it inherits, too, and its friends'."""
    for (_, owner), places in functions_of_classes(tree).items():
        if len(places) > MAX_MEMBER_FUNCTIONS:
            yield *places[0], f"{owner}: {len(places)} member functions, the stop is {MAX_MEMBER_FUNCTIONS}: split it by what it owns"


CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)\s*(?:final\s*)?(?::\s*([^{;()]*))?\{")


def wide_classes(tree):
    """Classes that reach more functions than MAX_MEMBER_FUNCTIONS: their own, those of their bases, and those of their friends,
    which see all that they have."""
    sizes = {key: len(places) for key, places in functions_of_classes(tree).items()}
    kin, homes = {}, {}
    for path, text in sorted(tree.items()):
        if namespace_of(path) is None or not path.endswith((".cpp", ".hpp")):
            continue
        code = code_only(text)
        for found in CLASS.finditer(code):
            bases = [re.sub(r"<.*", "", base).split()[-1] for base in (found[2] or "").split(",") if base.split()]
            friends = re.findall(r"\bfriend (?:class |struct )?(\w+);", block_from(code, found.end()))
            homes.setdefault((namespace_of(path), found[1]), path)
            kin[(namespace_of(path), found[1])] = (bases, friends)

    def size(home, name):
        return sizes.get((home, name), 0) or max([sizes.get((other, name), 0) for other in ("ddprun", "ddprun::inline detail")])

    def inherited(home, name, seen):
        if name in seen:
            return 0
        bases, _ = kin.get((home, name), ((), ()))
        return size(home, name) + sum(inherited(home, base, seen | {name}) for base in bases)

    for (home, name), (_, friends) in sorted(kin.items()):
        total = inherited(home, name, frozenset()) + sum(size(home, friend) for friend in friends)
        if total > MAX_MEMBER_FUNCTIONS:
            yield homes[(home, name)], f"{name}: {total} functions with its bases' and friends'"
