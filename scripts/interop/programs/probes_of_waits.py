"""Probes of the verbs that wait, or wake who waits: wait, get, queues, barriers, time-outs, threads, signals."""

import datetime
import signal
import threading

from probing import PATIENCE, SHORT, outcome, probe


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
def add_by_many(place):
    results = [place.meanwhile(lambda store: [store.add("n", 1) for _ in range(200)] and None) for _ in range(4)]
    return [result() for result in results], place.store.add("n", 0)


@probe
def compare_set_wakes(place):
    waiter = place.meanwhile(lambda store: store.wait(["k"], PATIENCE))
    place.store.compare_set("k", "", "value")
    return waiter()


@probe
def wait_after_a_failed_compare_set(place):
    def wait_and_say(store):
        try:
            store.wait(["k"], datetime.timedelta(seconds=1))
        finally:
            store.set("over", "1")

    waiter = place.meanwhile(wait_and_say)
    # Nobody can see when the other client's wait has arrived, so there are failed ones before and after that.
    while not place.store.check(["over"]):
        place.store.compare_set("k", "other", "value")
    return waiter()


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
def multi_get_of_a_missing_key(place):
    place.store.set_timeout(SHORT)
    place.store.set("a", "1")
    return outcome(lambda: place.store.multi_get(["a", "never"])), place.store.get("a")


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
def barrier(place):
    other = place.meanwhile(lambda store: store.barrier("b", 2, PATIENCE))
    return place.store.barrier("b", 2, PATIENCE), other()


@probe
def barrier_times_out(place):
    return outcome(lambda: place.store.barrier("b", 2, SHORT)), place.store.add("n", 1)


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
