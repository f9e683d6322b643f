"""A rough reading of C++ for tidy.py: code without comments and strings, functions, variables outside functions.

It knows no grammar; it follows braces. Good enough for sources that clang-format has laid out, and it says nothing
rather than something wrong where it cannot tell.
"""

import functools
import re

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/                      # comments
      | R"(?P<tag>[^(\s\\]{0,16})\(.*?\)(?P=tag)"   # raw strings
      | "(?:\\.|[^"\\\n])*"                     # strings
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'     # characters, but not the ' in 1'000
    """, re.S | re.X)


@functools.lru_cache(maxsize=None)
def code_only(text):
    """The text with comments, preprocessor lines and descriptions of structs blanked and strings emptied; every line
    keeps its number."""
    def blank(match):
        found = match.group(0)
        kept = "" if found.startswith("/") else '""'
        return kept + "\n" * found.count("\n")
    text = TOKEN.sub(blank, text)
    text = re.sub(r"^[ \t]*BOOST_DESCRIBE_\w+\([^;{}#]*?\)$", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)


def includes(text):
    """Every include as (line, '<' or '"', name)."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1), match.group(2)


def without_templates(text):
    """`a<b<c>> d` -> `a d`."""
    while True:
        text, count = re.subn(r"<[^<>()]*>", "", text)
        if not count:
            return text


def block_kind(head, outer):
    """What the brace after `head` opens, inside a block of kind `outer`."""
    if outer in ("function", "init"):
        return outer
    if re.match(r'(inline\s+)?namespace\b|extern\s*""\s*$', head):
        return "namespace"
    if re.match(r"(template\s*<.*>\s*)?(typedef\s+)?(class|struct|union|enum)\b(?!.*\)\s*$)", head, re.S):
        return "class"
    before_call = without_templates(head).split("(", 1)[0]
    if ")" not in head or ("=" in before_call and "operator" not in before_call):
        return "init"
    # `Name(int a) : a_` and `Name(int a) : a_{a}, b_`: the brace initialises a member.
    members = re.search(r"\)\s*(?:noexcept(?:\([^()]*\))?\s*)?:(?!:)(.*)$", head, re.S)
    if members and re.search(r"(^|,)\s*[\w:<>]+\s*$", members.group(1)):
        return "init"
    return "function"


def name_of(head):
    match = re.search(r"([\w:~]+|operator\s*\S+)\s*\(", head)
    return match.group(1) if match else head.strip()[:40]


NAMED_CLASS = re.compile(
    r"\b(?:class|struct|union|enum)\s+(?:class\s+|alignas\([^()]*\)\s*|\[\[\w+\]\]\s*)*(\w+(?:::\w+)*)")


class Scan:
    """One walk over code_only text; fills `functions`, `variables`, `types` and, by class, `members`: its functions that have
    a body in it or outside of it."""

    def __init__(self, code):
        self.functions, self.variables, self.types, self.members = [], [], [], []
        stack, head, head_line, line, parens = [("namespace", "", (1, 1), 0)], "", 1, 1, 0
        for char in code:
            kind = stack[-1][0]
            line += char == "\n"
            if char == "{":
                opened = "init" if parens else block_kind(head.strip(), kind)
                if opened == "class":
                    self.note_type(head, head_line, [(above, opening) for above, opening, _, _ in stack[1:]])
                stack.append((opened, head, (head_line, line), parens))
                parens = 0
                if opened != "init":
                    head = ""
                continue
            if char == "}" and len(stack) > 1:
                opened, opening, (first, body), parens = stack.pop()
                if opened == "init" and stack[-1][0] != "function":
                    head = opening + "{}"
                    head_line = first
                else:
                    head = ""
                if opened == "function" and stack[-1][0] != "function":
                    self.functions.append((name_of(opening), first, body, line))
                    self.note_member(name_of(opening), first, [above for kind, above, _, _ in stack if kind == "class"])
                continue
            parens += (char == "(") - (char == ")")
            if char == ";" and parens <= 0:
                if kind == "namespace":
                    self.variables.append((head_line, head.strip()))
                head, parens = "", 0
            else:
                if not head.strip() and not char.isspace():
                    head, head_line = "", line
                head += char
                if head.strip() in ("public:", "private:", "protected:"):
                    head = ""


    def note_member(self, name, line, classes):
        names = [named.group(1) for named in map(NAMED_CLASS.search, classes) if named]
        owner = "::".join([*names, *name.split("::")[:-1]])
        if owner:
            self.members.append((owner, line, bool(names)))

    def note_type(self, head, line, outer):
        """A class, struct, union or enumeration that is defined here: its namespaces and name; not what no other file can
        name, nor what is in a class or a function."""
        names = [re.sub(r"\b(inline|namespace)\b|\s", "", opening) for _, opening in outer]
        if re.search(r"template\s*<\s*>", head):
            return
        head = re.sub(r"^\s*template\s*<.*?>(?=\s*(?:class|struct|union|requires)\b)", "", head, flags=re.S)
        named = re.search(r"\b(?:class|struct|union|enum)\s+(?:class\s+|alignas\([^()]*\)\s*|\[\[\w+\]\]\s*)*(\w+)(?![\w:]*::)", head)
        if named and all(kind == "namespace" for kind, _ in outer) and all(names):
            self.types.append((line, "::".join(names), named.group(1)))


@functools.lru_cache(maxsize=None)
def scan(code):
    return Scan(code)


def members(code):
    """Every function with a body that belongs to a class, as (class, line, whether that is inside of the class)."""
    return scan(code).members


def types(code):
    """Every type that other files can name, as (line, namespace, name)."""
    return scan(code).types


def functions(code):
    """Every function body as (name, first line, last line)."""
    return [(name, first, last) for name, first, _, last in scan(code).functions]


NOT_A_VARIABLE = re.compile(
    r"(using|typedef|template|class|struct|union|enum|static_assert|extern|friend|namespace|return|goto)\b|\[\[")


def namespace_variables(code):
    """Variables outside functions and classes that can change, as (line, text)."""
    for line, statement in scan(code).variables:
        declared = re.split(r"=|\{", statement, 1)[0]
        plain = without_templates(declared)
        if NOT_A_VARIABLE.match(statement) or "operator" in plain or "(" in plain or re.search(r"\b(const|constexpr|sig_atomic_t)\b", declared):
            continue
        if re.fullmatch(r"[\w:*&\s\[\].]+\s[*&]*[\w:]+(\s*\[.*\])*\s*", plain):
            yield line, " ".join(statement.split())


def static_locals(code):
    """`static` variables inside functions that can change, as (line, text)."""
    lines = code.splitlines()
    for _, _, body, last in scan(code).functions:
        for number in range(body, last):
            match = re.match(r"\s*static\s+(?!const\b|constexpr\b|thread_local const\b).*", lines[number])
            if match:
                yield number + 1, match.group(0).strip()
