#!/usr/bin/env python3
"""What the Python package says of the C interface, compared with its header: structs, functions, numbers."""

import ctypes
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import support

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "apps", "python"))
# pylint: disable=wrong-import-position
from ddprun import abi, collectives, memory

with open(os.path.join(ROOT, "collectives", "ddprun_collectives.h"), encoding="utf-8") as header_file:
    HEADER = re.sub(r"//.*", "", header_file.read())
NUMBERS = {name: int(number) for name, number in re.findall(r"\bDDPRUN_(\w+) = (\d+)", HEADER)}
TYPES = {"void": None, "int": ctypes.c_int, "size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
         "double": ctypes.c_double, "char*": ctypes.c_char_p, "int*": ctypes.POINTER(ctypes.c_int),
         "ddprun_options*": ctypes.POINTER(abi.Options), "ddprun_request*": ctypes.POINTER(abi.Request)}


def as_ctypes(words):
    """The type that ctypes has for `const int* ranks`, and the name."""
    kind, name = re.fullmatch(r"\s*(?:const )?(\w+\**)\s*(\w*)\s*", words).groups()
    if kind in TYPES:
        return TYPES[kind], name
    return ctypes.POINTER(ctypes.c_void_p) if kind.endswith("**") else ctypes.c_void_p, name


def members(struct):
    text = re.search(rf"typedef struct {struct} {{(.*?)}} {struct};", HEADER, re.DOTALL)[1]
    return [as_ctypes(member) for member in text.split(";") if member.strip()]


class Abi(support.EndToEndTest):
    def test_structs_have_all_members_in_their_order(self):
        for struct, name in ((abi.Options, "ddprun_options"), (abi.Request, "ddprun_request")):
            self.assertEqual([(kind, member.rstrip("_")) for member, kind in struct._fields_], members(name))

    def test_functions_have_the_headers_parameters(self):
        declared = {}
        for result, name, parameters in re.findall(r"(?m)^((?:const )?\w+\**) ddprun_(\w+)\(([^()]*)\);", HEADER):
            kinds = [as_ctypes(each)[0] for each in parameters.split(",")]
            declared[name] = (as_ctypes(result)[0], [] if parameters == "void" else kinds)
        called = {name: (ctypes.c_int, parameters) for name, parameters in abi._CODES.items()} | abi._OTHERS
        self.assertEqual(called, {name: declared.get(name, "not in the header") for name in called})

    def test_numbers_are_the_headers(self):
        block = next(each for each in re.findall(r"enum {(.*?)}", HEADER, re.DOTALL) if "DDPRUN_BARRIER" in each)
        operations = {name.lower(): NUMBERS[name] for name in re.findall(r"DDPRUN_(\w+)", block)}
        self.assertEqual(collectives._OPERATIONS, operations)
        for prefix, names in (("", collectives._OPS), ("AS_", ("it_is", *collectives._COMPRESSIONS[1:])),
                              ("BACKEND_", ("automatic", *collectives._BACKENDS[1:])), ("", ("ok", "invalid_argument"))):
            self.assertEqual([NUMBERS[prefix + name.upper()] for name in names], list(range(len(names))))
        self.assertEqual(collectives._INVALID_ARGUMENT, NUMBERS["INVALID_ARGUMENT"])
        self.assertEqual(memory.TYPES, {(kind, bits // 8): NUMBERS[f"{kind.upper()}{bits}"] for kind, bits in (
            *(("f", bits) for bits in (16, 32, 64)), ("bf", 16), *((kind, bits) for kind in "iu" for bits in (8, 32, 64)))})


if __name__ == "__main__":
    support.main()
