"""A training program that saves when it is preempted: the handler of a signal sets a flag, and the next step saves and
ends with 0. Prints "ready" once it trains; writes FOLDER/saved-RANK.

Usage: preempted_trainer.py FOLDER SIGNAL [torch]

With `torch` its batches come from a DataLoader with three workers; else from three children that end by any signal. In
both cases a step fails when one of them has ended.
"""

import multiprocessing
import os
import signal
import sys

CHILDREN = 3

preempted = False


def note(_number, _frame):
    global preempted
    preempted = True


def serve(requests):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    while requests.recv():
        requests.send("batch")


def batches_of_children():
    pipes = []
    for _ in range(CHILDREN):
        ours, theirs = multiprocessing.Pipe()
        multiprocessing.Process(target=serve, args=(theirs,), daemon=True).start()
        theirs.close()
        pipes.append(ours)
    while True:
        for pipe in pipes:
            pipe.send(True)
        yield [pipe.recv() for pipe in pipes]


def batches_of_torch():
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, index):
            return torch.full((4,), float(index))

    torch.set_num_threads(1)
    return iter(DataLoader(Numbers(), batch_size=4, num_workers=CHILDREN))


def save(path, steps):
    with open(path + ".part", "w", encoding="ascii") as file:
        file.write(f"{steps} steps\n")
    os.replace(path + ".part", path)


def main():
    folder, name, *kind = sys.argv[1:]
    multiprocessing.set_start_method("fork")
    batches = batches_of_torch() if kind == ["torch"] else batches_of_children()
    next(batches)
    signal.signal(getattr(signal, name), note)
    print("ready", flush=True)
    steps = 1
    while not preempted:
        next(batches)
        steps += 1
    # The step that was under way, and with it everybody who works for it.
    for _ in range(2 * CHILDREN):
        next(batches)
    save(os.path.join(folder, f"saved-{os.environ['RANK']}"), steps)
    print("saved", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
