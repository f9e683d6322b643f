"""What the programs of the suite say of themselves; the suite counts who has said it."""


def ok(name):
    """This rank has done `name`, and its result was right."""
    print(f"ok {name}", flush=True)
