"""PyTorch's own tests of process groups, as its wheel has them, with the backend `ddprun` or with Gloo.

    backend_tests.py own|gloo [--backend ddprun|gloo] [--ranks 3] [WORD ...]

`own`: those that run under the backend's own name; `gloo`: those that run where the name is gloo. WORDs choose tests by a
part of their name. The last line is as every suite's.
"""

import argparse
import logging
import os
import sys
import tempfile
import unittest

# Tests that cannot pass, each with the reason.
CANNOT = {
    "test_ddp_logging_data_cpu": "expects the name that torch has for a foreign backend, `custom`, to be the one asked for",
}


def test_class(arguments, scratch):
    """PyTorch's class with all tests, made for this backend; imports torch."""
    os.environ.update(BACKEND="gloo" if arguments.selection == "gloo" else arguments.backend, WORLD_SIZE=str(arguments.ranks),
                      MASTER_ADDR="127.0.0.1", TEMP_DIR=scratch, TORCH_CPP_LOG_LEVEL="ERROR")
    import torch
    from torch.testing._internal import common_distributed

    if arguments.backend == "ddprun":
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "python"))
        import ddprun.torch
        ddprun.torch.extension()  # before the tests have limits
        for feature in ("ddp", "subgroup", "plugin"):
            common_distributed.DistTestCases.backend_feature[feature].add("ddprun")
    from torch.testing._internal.distributed import distributed_test

    if arguments.selection == "gloo":
        distributed_test.BACKEND = Both(arguments.backend)
    for known in (distributed_test.PROFILING_SUPPORTED_BACKENDS, distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        known.append(arguments.backend)

    class Backend(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Backend


class Both(str):
    """The name of a backend that the tests take for Gloo's, too, where they ask what is expected of it."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return other == "gloo" or str(self) == other

    def __ne__(self, other):
        return not self == other


class Lines(unittest.TestResult):
    """One line for each test that ran; skipped ones are counted."""

    def startTest(self, test):
        super().startTest(test)
        self.wrong = False

    def addSuccess(self, test):
        print(f"ok    {test._testMethodName}", flush=True)

    def _failed(self, test, error):
        name = test._testMethodName
        self.wrong = True
        if name in CANNOT:
            self.addSkip(test, CANNOT[name])
            print(f"skip  {name}: {CANNOT[name]}", flush=True)
            return
        self.failures.append(name)
        print(f"FAIL  {name}")
        for line in self._exc_info_to_string(error, test).splitlines()[-25:]:
            print(f"      | {line}")
        sys.stdout.flush()

    def addFailure(self, test, err):
        self._failed(test, err)

    def addError(self, test, err):
        self._failed(test, err)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("selection", choices=("own", "gloo"))
    parser.add_argument("--backend", default="ddprun", choices=("ddprun", "gloo"))
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        tests = test_class(arguments, scratch)
        names = [name for name in unittest.TestLoader().getTestCaseNames(tests)
                 if not arguments.words or any(word in name for word in arguments.words)]
        lines = Lines()
        unittest.TestSuite(map(tests, names)).run(lines)
    passed = lines.testsRun - len(lines.failures) - len(lines.skipped)
    print(f"{passed} passed, {len(lines.failures)} failed, {len(lines.skipped)} skipped")
    return 1 if lines.failures or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
