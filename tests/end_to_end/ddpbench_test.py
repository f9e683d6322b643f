"""ddpbench under ddprun: every operation, its table, its JSON, its exit codes."""

import json
import os
import re
import tempfile

import support
from support import EndToEndTest, program

REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
OPERATIONS = (*REDUCTIONS, "all_gather", "broadcast", "gather", "scatter", "all_to_all", "sendrecv", "pingpong")


class Ddpbench(EndToEndTest):
    def bench(self, ranks, *words, **options):
        return self.run_job("--nproc-per-node", ranks, program("ddpbench"), *words, **options)

    def test_every_operation_is_right_for_some_ranks_and_sizes(self):
        for operation in OPERATIONS:
            for ranks in (1, 2, 3) if operation not in ("sendrecv", "pingpong") else (2, 3):
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "rows.json")
                    code, out, err = self.bench(ranks, operation, "-b", "100", "-e", "300K", "-f", "50", "-n", "2", "-m", "2",
                                                "-d", "all", "-o", "all", "-J", path)
                    self.assertEqual((code, err), (0, ""), operation)
                    with open(path, encoding="utf-8") as file:
                        result = json.load(file)
                self.assertEqual(result["operation"], operation)
                self.assertEqual(result["ranks"], ranks)
                self.assertEqual(result["wrong"], 0)
                rows = re.findall(r"^ +\d+ +\d+ +\w+ +\w+ +-?\d+ .*$", out, re.MULTILINE)
                self.assertEqual(len(rows), len(result["rows"]))
                # Ten types; where it reduces, eight operations of six integers and six of four others.
                self.assertEqual(len(rows), 3 * (8 * 6 + 6 * 4 if operation in REDUCTIONS else 10))
                self.assertIn("# Out of bounds values : 0 OK", out)

    def test_its_json_is_not_written_behind_another_users_link(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: needs root, to make another user's link")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o1777)
            kept, path = os.path.join(folder, "kept"), os.path.join(folder, "rows.json")
            with open(kept, "w", encoding="utf-8") as file:
                file.write("kept")
            os.symlink(kept, path)
            os.lchown(path, 61234, 61234)
            code, _, err = self.bench(1, "all_reduce", "-b", "1K", "-e", "1K", "-n", "2", "-J", path)
            self.assertEqual((code, err), (0, ""))
            with open(kept, encoding="utf-8") as file:
                self.assertEqual(file.read(), "kept")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["ranks"], 1)

    def test_sendrecv_alone_is_refused(self):
        code, _, err = self.bench(1, "sendrecv", "-e", "1K", "-b", "1K")
        self.assertEqual(code, 2)
        self.assertIn("ddpbench: sendrecv needs two ranks", err)

    def test_its_head_says_which_memory_was_measured_and_how_to_get_the_other(self):
        words = ("all_reduce", "-b", "1K", "-e", "1K", "-n", "2")
        for ranks, alone in ((1, ", one rank alone"), (2, "")):
            code, out, err = self.bench(ranks, *words, env={"DDPRUN_CUDA_LIBRARY": "/a/driver"})
            self.assertEqual((code, err), (0, ""))
            self.assertIn(f"# backend cpu{alone}: memory of the host; --backend nccl measures this node's GPUs\n", out)

    def test_too_slow_is_a_failure(self):
        code, _, err = self.bench(2, "all_reduce", "-b", "1K", "-e", "1K", "-n", "2", env={"NCCL_TESTS_MIN_BW": "1e9"})
        self.assertEqual(code, 1)
        self.assertIn("NCCL_TESTS_MIN_BW", err)

    def test_a_root_that_is_not_there(self):
        code, _, err = self.bench(2, "broadcast", "-r", "2")
        self.assertEqual(code, 2)
        self.assertIn("-r 2: there are ranks 0 to 1", err)


if __name__ == "__main__":
    support.main()
