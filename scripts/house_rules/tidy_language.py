"""The language of headers' comments, counted: what a comment is about stands in it, and a type is no person.

A comment above a declaration names what is declared in its first sentence, or, above a function, begins with what the function
does ("Returns …"). No sentence begins with a pronoun whose noun is elsewhere.
"""

import re

HEADER = re.compile(r"(apps|launcher|rendezvous|collectives)/.*\.hpp$")
COMMENT = re.compile(r"^ *// ?(.*)$")
PRONOUN = re.compile(r"(It|Its|This|These|Those|That|They|Their|One|Ones|So|Nobody|Somebody|Anybody|Others|Such|He|His|Whoever|Who|Whom|"
                     r"Both|Neither|None|Another)\b(?! (is thrown|way to|of the))")
PERSON = re.compile(r"\b(who|whom|whose|whoever|he|him|his|nobody|somebody|anybody|everybody|nobody's|somebody's)\b", re.I)
DECLARED = re.compile(
    r"^ *(?:template *<.*> *)?(?:inline |static |constexpr |consteval |extern |explicit |virtual |friend |mutable |\[\[\w+\]\] )*"
    r"(?:(?P<kind>class|struct|enum class|enum|union|concept|using|namespace) (?:\[\[\w+\]\] |alignas\([^()]*\) )?(?P<name>\w+)"
    r"|[\w:<>,*&\. ]*?[ *&](?P<function>~?\w+|operator\S+) ?\("
    r"|[\w:<>,*&\.\[\] ]+?[ *&](?P<value>\w+)(?: ?[={;\[]|$))")
OTHER = re.compile(r" *(if|for|while|switch|return|const auto|auto)\b| {8}")  # no declaration, or one inside of a function
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|RFC \d+|v\d)\.$")


def sentences(text):
    """The sentences of a comment's text."""
    found, begin = [], 0
    for end in re.finditer(r"[.?!:]\)?(?= +[A-Z`'\"(]|$)", text):
        if not ABBREVIATED.search(text[:end.end()]) and end[0][0] != ":":
            found.append(text[begin:end.end()].strip())
            begin = end.end()
    if text[begin:].strip():
        found.append(text[begin:].strip())
    return found


def blocks(text):
    """Each comment of lines of its own as (line, its text, the line of code behind it)."""
    lines, block, first = text.splitlines(), [], 0
    for number, line in enumerate([*lines, ""], 1):
        match = COMMENT.match(line)
        if match:
            first = first if block else number
            block.append(match[1])
            continue
        if block:
            yield first, " ".join(block), line
        block = []


def comments(text):
    """Every comment, those behind code too, as (line, text)."""
    for line, words, _ in blocks(text):
        yield line, words
    for number, line in enumerate(text.splitlines(), 1):
        behind = re.search(r"\S.*?\s{2}// (.*)$", line)
        if behind and not COMMENT.match(line):
            yield number, behind[1]


def headers(tree):
    return ((path, text) for path, text in tree.items() if HEADER.match(path))


def pronouns(tree):
    """Sentences that begin with a pronoun."""
    for path, text in headers(tree):
        for line, words in comments(text):
            for sentence in sentences(words):
                if PRONOUN.match(sentence):
                    yield f"{path}:{line}", " ".join(sentence.split()[:6])


def persons(tree):
    """Pronouns of persons in comments."""
    for path, text in headers(tree):
        for line, words in comments(text):
            for found in PERSON.finditer(words):
                yield f"{path}:{line}", found[0]


def unnamed(tree):
    """Comments above a declaration whose first sentence does not name it."""
    for path, text in headers(tree):
        for line, words, code in blocks(text):
            found = None if OTHER.match(code) or words.startswith(("NOLINT", "clang-format")) else DECLARED.match(code)
            if not found or not sentences(words):
                continue
            name = found["name"] or found["function"] or found["value"]
            first = sentences(words)[0]
            if not re.search(rf"\b{re.escape(name.strip('~'))}", first) and not (found["function"] and re.match(r"(Never |Also )?[A-Z][a-z]+(e?s)\b", first)):
                yield f"{path}:{line}", f"{name}: {' '.join(first.split()[:7])}"
