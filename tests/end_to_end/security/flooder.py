"""Somebody who calls every port that listens in this network, without pause, and knows nothing of the job: FLOODER KIND RATE SECONDS.

KIND is what is said on each connection: `silent`, nothing; `half`, the first half of a Hello; `garbage`, as many bytes as a
Hello has; `stranger`, a Hello with another number than the job's. RATE connections a second are opened, as far as the machine
keeps up, of which the last 900 are kept. Prints a line at the first, and how many there were at the end.
"""

import socket
import struct
import sys
import time

MAGIC, VERSION = 0x43504444, 4
HELLO = struct.pack("<IHBBIIii16sI16s", MAGIC, VERSION, 0, 0, 0, 1, 0, 1, bytes(16), 0, bytes(16))
WORDS = {"silent": b"", "half": HELLO[:30], "garbage": b"G" * len(HELLO), "stranger": HELLO}
KEPT = 900
TICK = 0.01
LAG = 0.1
LISTENS = "0A"


def listening():
    ports = []
    with open("/proc/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            columns = line.split()
            if columns[3] != LISTENS:
                break  # They come first, and the others are many.
            address, port = columns[1].split(":")
            host = socket.inet_ntoa(struct.pack("<I", int(address, 16)))
            ports.append(("127.0.0.1" if host == "0.0.0.0" else host, int(port, 16)))
    return ports


def call(where, words):
    caller = socket.socket()
    caller.setblocking(False)
    try:
        caller.connect(where)
    except BlockingIOError:
        pass
    except OSError:
        return caller
    try:
        if words:
            caller.send(words)
    except OSError:
        pass  # It has been sent away, or is not connected yet.
    return caller


def flood(words, rate, seconds):
    """Calls for so long, and returns how often."""
    kept, calls = [], 0
    begin = now = last = time.monotonic()
    while now < begin + seconds:
        ports = listening()
        # What was not kept up with for a moment is made up for, but for no longer.
        due = int(min(now - last, LAG) * rate)
        last += max(due / rate, now - last - LAG)
        for number in range(due if ports else 0):
            kept.append(call(ports[(calls + number) % len(ports)], words))
        if ports and due and not calls:
            print("calls", flush=True)
        calls += due if ports else 0
        for caller in kept[:-KEPT]:
            caller.close()
        del kept[:-KEPT]
        time.sleep(max(now + TICK - time.monotonic(), 0))  # No event says when the next are due: the rate is the flood's own.
        now = time.monotonic()
    return calls


def main():
    kind, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    print(f"{flood(WORDS[kind], rate, seconds)} calls in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
