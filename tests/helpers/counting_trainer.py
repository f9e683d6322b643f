"""A program that counts in a file how often it was told to end (SIGTERM), and goes on from there when it is started again.

usage: counting_trainer.py FOLDER LAST   its file is FOLDER/RANK; when it begins at LAST it ends at once, with 0

It says where it begins and which signals it gets, each in a line. On SIGTERM it saves and ends with 0.
"""

import os
import signal
import sys

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def say(text):
    os.write(1, f"rank {os.environ['RANK']} {text}\n".encode())


def main(folder, last):
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    path = os.path.join(folder, os.environ["RANK"])
    count = 0
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            count = int(file.read())
    say(f"of {os.environ['WORLD_SIZE']} begins at {count} as {os.environ['TORCHELASTIC_RUN_ID']}")
    if count == last:
        return
    while True:
        received = signal.sigwait(SIGNALS)
        say(f"gets {signal.Signals(received).name}")
        if received == signal.SIGTERM:
            break
    with open(path + ".part", "w", encoding="ascii") as file:
        file.write(str(count + 1))
    os.rename(path + ".part", path)
    say(f"has saved {count + 1}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
