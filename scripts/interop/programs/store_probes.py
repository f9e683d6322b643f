"""Every verb of PyTorch's store client, one probe each: what a user sees of it, as a value that can be compared.

A probe is a function of a Place; its result, or its error in a form without numbers and addresses, is what is compared.
"""

import datetime
import re
import signal
import threading

from torch.distributed import PrefixStore, TCPStore

KIB, MIB = 1 << 10, 1 << 20
PATIENCE = datetime.timedelta(seconds=60)  # a hang guard
SHORT = datetime.timedelta(milliseconds=60)
PROBES = {}


def probe(function):
    PROBES[function.__name__.replace("_", " ")] = function
    return function


class Place:
    """One server, and the keys of one probe on it."""

    def __init__(self, host, port, options, prefix):
        self.host, self.port, self.options, self.prefix = host, port, options, prefix
        self.store = self.connect()

    def connect(self, **more):
        return PrefixStore(self.prefix, TCPStore(self.host, self.port, is_master=False, timeout=PATIENCE, **self.options, **more))

    def meanwhile(self, action):
        """Runs the action in a thread, with a connection of its own; its result comes from calling what is returned."""
        results = []

        def run():
            results.append(outcome(lambda: action(self.connect())))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def result():
            thread.join(timeout=PATIENCE.total_seconds())
            return results[0] if results else "hangs"

        return result


def outcome(action):
    try:
        return repr(action())
    except Exception as error:  # whatever it is, it is what a user sees
        text = str(error).splitlines()[0] if str(error) else ""
        # A closed connection shows at whichever call of the client comes next.
        if re.search("reset by peer|Broken pipe|onnection was|failed to (recv|send)|Connection reset", text):
            return "connection closed"
        if re.search("timeout|timed out|Timeout", text):
            return f"{type(error).__name__}: timeout"
        return f"{type(error).__name__}: {re.sub('[0-9]+', 'N', text)[:80]}"


def mark(size, end=b"e"):
    return b"v" * (size - 1) + end


def came_back(place, size):
    place.store.set("large", mark(size))
    return place.store.get("large") == mark(size)


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
def get_of_a_missing_key_times_out(place):
    place.store.set_timeout(SHORT)
    return place.store.get("never")


@probe
def after_a_timeout_the_connection_goes_on(place):
    first = outcome(lambda: place.store.wait(["never"], SHORT))
    place.store.set("never", "now")
    return first, place.store.get("never"), outcome(lambda: place.store.wait(["other"], SHORT)), place.store.add("n", 1)


@probe
def set_timeout_and_timeout(place):
    place.store.set_timeout(SHORT)
    return place.store.timeout


@probe
def get_waits_for_another_client(place):
    getter = place.meanwhile(lambda store: store.get("later"))
    place.store.set("later", "value")
    return getter()


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
def add_by_many(place):
    results = [place.meanwhile(lambda store: [store.add("n", 1) for _ in range(200)] and None) for _ in range(4)]
    return [result() for result in results], place.store.add("n", 0)


@probe
def compare_set(place):
    return [place.store.compare_set("k", expected, desired) for expected, desired in
            (("old", "new"), ("", "one"), ("zero", "two"), ("one", "two"), ("two", ""), ("", "three"))] + [place.store.get("k")]


@probe
def compare_set_wakes(place):
    waiter = place.meanwhile(lambda store: store.wait(["k"], PATIENCE))
    place.store.compare_set("k", "", "value")
    return waiter()


@probe
def wait_after_a_failed_compare_set(place):
    waiter = place.meanwhile(lambda store: (store.set("waits", ""), store.wait(["k"], datetime.timedelta(seconds=1))))
    place.store.wait(["waits"])
    place.store.compare_set("k", "other", "value")
    return waiter()


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
def wait(place):
    place.store.set("a", "1")
    return [outcome(lambda keys=keys: place.store.wait(keys, SHORT)) for keys in (["a"], ["a", "a"], [], ["a", "b"], ["b"])]


@probe
def wait_in_any_order(place):
    results = []
    for number, order in enumerate(("abc", "cba", "bca")):
        waiter = place.meanwhile(lambda store, n=number: store.wait([f"{n}{key}" for key in "abc"], PATIENCE))
        for key in order:
            place.store.set(f"{number}{key}", "1")
        results.append(waiter())
    return results


@probe
def each_verb_wakes(place):
    verbs = {"set": lambda key: place.store.set(key, "1"), "add": lambda key: place.store.add(key, 1),
             "append": lambda key: place.store.append(key, "1"), "multi_set": lambda key: place.store.multi_set([key], ["1"])}
    results = {}
    for name, act in verbs.items():
        if hasattr(place.store, name):
            waiter = place.meanwhile(lambda store, key=name: store.wait([key], PATIENCE))
            act(name)
            results[name] = waiter()
    return results


@probe
def one_key_wakes_many(place):
    waiters = [place.meanwhile(lambda store: store.wait(["k"], PATIENCE)) for _ in range(8)]
    place.store.set("k", "1")
    return [waiter() for waiter in waiters]


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
def multi_get_of_a_missing_key(place):
    place.store.set_timeout(SHORT)
    place.store.set("a", "1")
    return outcome(lambda: place.store.multi_get(["a", "never"])), place.store.get("a")


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
def queue(place):
    lengths = [place.store.queue_len("q")]
    for value in ("one", "", "three"):
        place.store.queue_push("q", value)
        lengths.append(place.store.queue_len("q"))
    popped = [place.store.queue_pop("q") for _ in range(3)]
    return lengths, popped, place.store.queue_len("q"), outcome(lambda: place.store.queue_pop("q", block=False))


@probe
def queue_pop_times_out(place):
    place.store.set_timeout(SHORT)
    return outcome(lambda: place.store.queue_pop("q")), place.store.queue_push("q", "1"), place.store.queue_pop("q")


@probe
def queue_pop_waits(place):
    popper = place.meanwhile(lambda store: store.queue_pop("q"))
    place.store.queue_push("q", "value")
    return popper()


@probe
def queue_and_key_of_one_name(place):
    place.store.queue_push("q", "1")
    before = place.store.num_keys()
    seen = [place.store.check(["q"]), place.store.delete_key("q"), place.store.queue_len("q")]
    place.store.set("q", "value")
    return seen, place.store.num_keys() - before, place.store.get("q"), place.store.queue_pop("q")


@probe
def list_keys(place):
    for key in ("b", "a", "c/d"):
        place.store.set(key, "1")
    place.store.queue_push("q", "1")
    return sorted(place.store.list_keys()), sorted(PrefixStore("c", place.store).list_keys())


@probe
def barrier(place):
    other = place.meanwhile(lambda store: store.barrier("b", 2, PATIENCE))
    return place.store.barrier("b", 2, PATIENCE), other()


@probe
def barrier_times_out(place):
    return outcome(lambda: place.store.barrier("b", 2, SHORT)), place.store.add("n", 1)


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


@probe
def workers_are_counted(place):
    before = outcome(lambda: place.store.underlying_store.check(["init/"]))
    first = place.connect(world_size=2, wait_for_workers=False)
    place.connect(world_size=2, wait_for_workers=False)
    return before, first.underlying_store.num_keys() - place.store.num_keys()


@probe
def threads_share_one_client(place):
    def work(number):
        for _ in range(100):
            place.store.add(f"n{number}", 1)
            place.store.set(f"k{number}", "1" * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [place.store.add(f"n{number}", 0) for number in range(4)]


@probe
def a_signal_does_not_break_a_wait(place):
    caught = []
    signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
    main = threading.get_ident()

    def disturb(store):
        store.wait(["waits"], PATIENCE)
        for _ in range(3):
            signal.pthread_kill(main, signal.SIGUSR1)
        store.set("later", "1")

    other = place.meanwhile(disturb)
    place.store.set("waits", "1")
    place.store.wait(["later"], PATIENCE)
    return other(), bool(caught)
