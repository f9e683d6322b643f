"""How a probe of a store is done: what a user sees of one of its verbs, as a value that can be compared.

A probe is a function of a Place; its result, or its error in a form without numbers and addresses, is what is compared.
"""

import datetime
import re
import threading

from torch.distributed import PrefixStore, TCPStore

PATIENCE = datetime.timedelta(seconds=60)  # a hang guard
SHORT = datetime.timedelta(milliseconds=500)
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
