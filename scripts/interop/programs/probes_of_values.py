"""Probes of the verbs that keep, change and list values, and of how large keys and values may be."""

from probing import outcome, probe
from torch.distributed import PrefixStore

KIB, MIB = 1 << 10, 1 << 20


def came_back(place, size):
    value = b"v" * (size - 1) + b"e"
    place.store.set("large", value)
    return place.store.get("large") == value


@probe
def set_and_get(place):
    values = (b"value", b"", b"\0nul\0", bytes(range(256)))
    return [(place.store.set("k", value), place.store.get("k") == value)[1] for value in values]


@probe
def values_around_the_flush_size(place):
    return all(came_back(place, size) for size in range(1400, 1460))


@probe
def value_of_1_MiB(place):
    return came_back(place, MIB)


@probe
def value_of_7_MiB(place):
    return came_back(place, 7 * MIB)


@probe
def value_above_8_MiB(place):
    return came_back(place, 8 * MIB + 1)


@probe
def value_of_32_MiB(place):
    return came_back(place, 32 * MIB)


def key_came_back(place, size):
    place.store.set("k" * size, "1")
    return place.store.get("k" * size)


@probe
def key_of_7_KiB(place):
    return key_came_back(place, 7 * KIB)


@probe
def key_above_8_KiB(place):
    return key_came_back(place, 8 * KIB + 1)


@probe
def key_of_60_KiB(place):
    return key_came_back(place, 60 * KIB)


@probe
def key_of_1_MiB(place):
    return key_came_back(place, MIB)


@probe
def empty_key(place):
    place.store.set("", "1")
    return place.store.get(""), place.store.check([""])


@probe
def add(place):
    numbers = [place.store.add("n", delta) for delta in (5, -7, 0, 1 << 40, -(1 << 41))]
    return numbers, place.store.get("n"), place.store.add("fresh", 0), place.store.get("fresh")


@probe
def add_to_text(place):
    place.store.set("t", " 12abc")
    return place.store.add("t", 1)


@probe
def add_to_what_is_no_number(place):
    place.store.set("t", "abc")
    return outcome(lambda: place.store.add("t", 1)), place.connect().get("t")


@probe
def add_to_an_empty_value(place):
    place.store.set("t", "")
    return outcome(lambda: place.store.add("t", 1))


@probe
def add_beyond_64_bits(place):
    place.store.set("t", str((1 << 63) - 1))
    return outcome(lambda: place.store.add("t", 1))


@probe
def compare_set(place):
    return [place.store.compare_set("k", expected, desired) for expected, desired in
            (("old", "new"), ("", "one"), ("zero", "two"), ("one", "two"), ("two", ""), ("", "three"))] + [place.store.get("k")]


@probe
def check(place):
    place.store.set("a", "1")
    asked = (["a"], ["b"], ["a", "b"], ["a", "a"], [])
    answers = [place.store.check(keys) for keys in asked]
    place.store.delete_key("a")
    return answers, place.store.check(["a"])


@probe
def check_of_131072_keys(place):
    return place.store.check(["k"] * 131072)


@probe
def check_of_131073_keys(place):
    return place.store.check(["k"] * 131073)


@probe
def append(place):
    place.store.append("k", "one")
    place.store.append("k", "two")
    place.store.set("n", "1")
    place.store.append("n", "2")
    place.store.append("e", "")
    return place.store.get("k"), place.store.add("n", 1), place.store.get("e")


@probe
def multi_set_and_get(place):
    place.store.multi_set(["a", "b", "c"], ["1", "", "3"])
    return place.store.multi_get(["c", "a", "b", "a"]), place.store.multi_get([])


@probe
def multi_set_of_unequal_lists(place):
    return place.store.multi_set(["a", "b"], ["1"])


@probe
def multi_get_of_1000_keys(place):
    keys = [f"k{number}" for number in range(1000)]
    place.store.multi_set(keys, [key * 10 for key in keys])
    return place.store.multi_get(keys) == [(key * 10).encode() for key in keys]


@probe
def delete_key(place):
    place.store.set("a", "1")
    return [place.store.delete_key("a"), place.store.delete_key("a"), place.store.check(["a"])]


@probe
def num_keys(place):
    before = place.store.num_keys()
    place.store.set("a", "1")
    place.store.add("b", 1)
    counts = [place.store.num_keys() - before]
    place.store.delete_key("a")
    return counts + [place.store.num_keys() - before]


@probe
def list_keys(place):
    for key in ("b", "a", "c/d"):
        place.store.set(key, "1")
    place.store.queue_push("q", "1")
    return sorted(place.store.list_keys()), sorted(PrefixStore("c", place.store).list_keys())


@probe
def clone(place):
    copy = place.store.underlying_store.clone()
    copy.set("cloned", "1")
    return place.store.underlying_store.get("cloned"), copy.delete_key("cloned")


@probe
def prefixes_nest(place):
    PrefixStore("a/b", PrefixStore("c", place.store)).set("key", "value")
    return place.store.get("c/a/b/key")


@probe
def extended_api(place):
    return place.store.has_extended_api()
