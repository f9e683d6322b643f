#!/usr/bin/env python3
"""The lines of apps/examples/README.md, run as they stand there with Debian's PyTorch.

The lines of a block run in a folder where `build/bin` and `apps` are the real ones, so that a checkpoint lands nowhere else.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import support

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EXAMPLES = os.path.join(ROOT, "apps", "examples")
DEBIANS_FOLDER = "/usr/bin"  # of the python3 that Debian's python3-torch is for


def has_pytorch():
    done = subprocess.run([os.path.join(DEBIANS_FOLDER, "python3"), "-c", "import torch"], capture_output=True, check=False)
    return done.returncode == 0


def blocks():
    """The README's blocks of shell, in their order."""
    with open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8") as file:
        return re.findall(r"^```sh\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


def block_with(*words):
    """The only block that has all these words."""
    found = [block for block in blocks() if all(word in block for word in words)]
    assert len(found) == 1, (words, found)
    return found[0]


class Examples(support.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.mkdir(os.path.join(self.folder, "build"))
        os.symlink(support.BIN, os.path.join(self.folder, "build", "bin"))
        os.symlink(os.path.join(ROOT, "apps"), os.path.join(self.folder, "apps"))
        self.environment.update(PATH=f"{DEBIANS_FOLDER}:{os.environ['PATH']}", OMP_NUM_THREADS="1")

    def start(self, line):
        return subprocess.Popen(["bash", "-euc", line], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_block(self, *words):
        """All nodes of the block at once; what each has said."""
        block = block_with(*words)
        for port in map(int, re.findall(r"--master_port=(\d+)", block)[:1]):
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    self.skipTest(f"the line's port {port} is taken by another program: {error}")
        nodes = [self.start(line) for line in re.split(r"^# on node \d+\n", block, flags=re.MULTILINE) if line.strip()]
        outputs = []
        for node in nodes:
            try:
                outputs.append(node.communicate(timeout=2 * support.HANG_GUARD)[0])
            except subprocess.TimeoutExpired:
                for each in nodes:
                    each.kill()
                raise
        self.assertEqual([node.returncode for node in nodes], [0] * len(nodes), outputs)
        return outputs

    def assert_lines(self, output, *patterns):
        for pattern in patterns:
            self.assertRegex(output, re.compile(f"^{pattern}$", re.MULTILINE))

    def test_training_goes_on_from_its_checkpoint(self):
        first, = self.run_block("train.py --epochs 2")
        self.assert_lines(first, r"rank 0 of 2, local rank 0, device \S+, CUDA_VISIBLE_DEVICES .*", "rank 1 of 2, local rank 1, .*",
                          r"epoch 0: loss [\d.]+, saved in checkpoint.pt", "epoch 1: loss .*")
        self.assertTrue(os.path.exists(os.path.join(self.folder, "checkpoint.pt")))
        again = self.start(block_with("train.py --epochs 2").replace("--epochs 2", "--epochs 3")).communicate()[0]
        self.assertEqual(re.findall(r"^epoch (\d)", again, re.MULTILINE), ["2"], again)

    def test_a_mask_of_gpus_is_passed_on(self):
        output, = self.run_block("CUDA_VISIBLE_DEVICES=0,2", "train.py")
        self.assert_lines(output, *(f"rank {rank} of 2, local rank {rank}, .*CUDA_VISIBLE_DEVICES 0,2" for rank in (0, 1)))

    def test_a_mask_of_gpus_is_split(self):
        output, = self.run_block("CUDA_VISIBLE_DEVICES=0,2", "--gpu-bind=single")
        self.assertEqual(sorted(re.findall("^CUDA_VISIBLE_DEVICES=.*$", output, re.MULTILINE)),
                         ["CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=2"])
        self.assertEqual(sorted(re.findall("^LOCAL_RANK=.*$", output, re.MULTILINE)), ["LOCAL_RANK=0", "LOCAL_RANK=1"])

    def test_with_restarts(self):
        output, = self.run_block("--max_restarts=3")
        self.assert_lines(output, "epoch 2: loss .*, saved in restarted.pt")

    def test_two_nodes(self):
        outputs = self.run_block("--nnodes=2", "train.py")
        for node, output in enumerate(outputs):
            self.assert_lines(output, *(f"rank {2 * node + local} of 4, local rank {local}, .*" for local in (0, 1)))
        self.assertRegex(outputs[0], "epoch 2: loss")
        self.assertNotRegex(outputs[1], "epoch")

    def test_local_rank_as_an_argument(self):
        output, = self.run_block("'--local_rank=${local_rank}'")
        self.assert_lines(output, *(f"--local_rank {rank}, rank {rank} of 2, batch size 8" for rank in (0, 1)))

    def test_local_rank_as_torch_distributed_launch_has_it(self):
        output, = self.run_block("--legacy-launch=local_rank")
        self.assert_lines(output, *(f"--local_rank {rank}, rank {rank} of 2, batch size 4" for rank in (0, 1)))

    def test_world_size_and_rank_by_hand(self):
        output, = self.run_block("explicit_rank.py")
        self.assert_lines(output, *(f"rank {rank} of 3: the sum of all ranks is 3" for rank in range(3)))

    def test_metrics_are_averaged(self):
        output, = self.run_block("average_metrics.py")
        self.assert_lines(output, *(rf"rank {rank}: {samples} samples, score 4\.50, above 4: 50%"
                                    for rank, samples in enumerate((4, 3, 3))))

    def test_spawn(self):
        outputs = self.run_block("spawn.py")
        for node, output in enumerate(outputs):
            self.assert_lines(output, *(f"worker {local} on node {node}, rank {2 * node + local} of 4: 4 workers are there"
                                        for local in (0, 1)))

    def test_every_block_and_every_program_is_there(self):
        """A line that no test runs, or a program that no line starts, would not be proven."""
        with open(os.path.abspath(__file__), encoding="utf-8") as file:
            calls = re.findall(r"self\.run_block\((.*?)\)\n", file.read())
        tested = [block_with(*re.findall(r'"(.*?)"', words)) for words in calls if words != "*words"]
        self.assertEqual(sorted(tested), sorted(blocks()))
        # These two want the wheel: python_test.py runs the one, scripts/interop/torch_tests.sh the other.
        programs = {name for name in os.listdir(EXAMPLES) if name.endswith(".py")} - {"kmeans.py", "train_ddprun.py"}
        self.assertEqual(programs, set(re.findall(r"apps/examples/(\w+\.py)", "".join(blocks()))))


if __name__ == "__main__":
    if not has_pytorch():
        print("skipped: PyTorch is not installed (Debian package python3-torch)")
        sys.exit(77)
    support.main()
