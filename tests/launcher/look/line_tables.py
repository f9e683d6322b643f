"""Prints the line tables of code objects with what this interpreter makes of them.

One line each: the form, the first line, the table, then for each instruction its place and line (0: none).
"""
import dis
import sys
import threading


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def ranges(code):
    if sys.version_info >= (3, 10):
        return [(start, end, line or 0) for start, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code)) + [(len(code.co_code), 0)]
    return [(start, end, line) for (start, line), (end, _) in zip(starts, starts[1:])]


form = "steps" if sys.version_info < (3, 10) else "ranges" if sys.version_info < (3, 11) else "locations"
for module in threading, dis:
    with open(module.__file__) as file:
        whole = compile(file.read(), module.__file__, "exec")
    for code in codes(whole):
        table = code.co_lnotab if form == "steps" else code.co_linetable
        places = [f"{place}:{line}" for start, end, line in ranges(code) for place in range(start, end, 2)]
        print(form, code.co_firstlineno, table.hex() or "-", *places)
