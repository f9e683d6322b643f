"""A program in a known nested call: nested_calls.py WAY. Tests of the reader know its lines by their marks.

python_images has some of them, so that what is new comes at the end, or look_program records them anew.
"""
import gc
import sys
import threading
import time


def wait():
    print("ready", flush=True)
    while True:
        # No event: the reader is to see a sleep.
        time.sleep(1000)  # here: wait


def outer(inner):
    inside = [
        inner
    ]
    inside[0](  # here: outer
    )


class Loader:
    def fetch(self):
        wait()  # here: fetch

    def all(self):
        yield 1
        yield self.fetch()  # here: all

    def größe(self):
        self.數()  # here: größe

    def 數(self):
        exec(compile("wait()", "/𝔣/größe.py", "exec"), {"wait": wait})  # here: 數


def in_generator():
    for _ in Loader().all():  # here: in_generator
        pass


def in_thread():
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()  # here: in_thread


def in_native_call():
    print("ready", flush=True)
    sys.stdin.read()  # here: in_native_call


def spin():
    while True: pass  # here: spin


def in_two_that_run():
    threading.Thread(target=spin).start()
    print("ready", flush=True)
    spin()  # here: in_two_that_run


def deep(left):
    if left == 0:
        wait()
    deep(left - 1)  # here: deep


def up(left):
    return up(left - 1) + 1 if left else 0  # here: up


def in_change():
    print("ready", flush=True)
    while True: up(30)  # here: in_change


class Knot:
    def __init__(self):
        self.knot = self

    def __del__(self):
        wait()  # here: __del__


def in_collection():
    Knot()
    gc.collect()  # here: in_collection


def in_five_threads():
    for _ in range(4):
        threading.Thread(target=time.sleep, args=(1000,)).start()
    wait()  # here: in_five_threads


def in_image():
    threading.Thread(target=Loader().größe).start()
    sys.stdin.readline()  # here: in_image


WAYS = {
    "sleep": lambda: outer(wait),
    "generator": in_generator,
    "thread": in_thread,
    "native": in_native_call,
    "names": lambda: Loader().größe(),
    "lock": in_two_that_run,
    "deep": lambda: deep(150),
    "change": in_change,
    "collection": in_collection,
    "threads": in_five_threads,
    "image": in_image,
}


if __name__ == "__main__":
    WAYS[sys.argv[1]]()  # here: main
