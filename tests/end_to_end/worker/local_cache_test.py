#!/usr/bin/env python3
"""--local-cache: where compilers of the workers keep what they have made, and that nothing of it stays."""

import os
import re
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import EndToEndTest, main

SAY = """echo "triton $TRITON_CACHE_DIR"; echo "inductor $TORCHINDUCTOR_CACHE_DIR"; echo "cuda $CUDA_CACHE_PATH"
echo x > "$TRITON_CACHE_DIR/kernel.$DDPRUN_ROUND.$RANK"; """


class LocalCache(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.environment["TMPDIR"] = self.folder

    def test_one_folder_of_the_job_in_all_rounds_gone_at_its_end(self):
        code, out, err = self.run_job("--local-cache", "--nproc-per-node", 2, "--max-restarts", 1, "sh", "-c", SAY + """
[ "$DDPRUN_ROUND" = 1 ] || { [ "$RANK" = 1 ] || sleep 1000; while [ ! -e "$TRITON_CACHE_DIR/kernel.0.0" ]; do :; done; exit 1; }
ls "$TRITON_CACHE_DIR" | tr '\\n' ' '; stat -c 'mode %a' "$(dirname "$(dirname "$TRITON_CACHE_DIR")")" """)
        self.assertEqual(code, 0, err)
        places = set(re.findall("^triton (.*)$", out, re.MULTILINE))
        self.assertEqual(len(places), 1, out)
        self.assertRegex(places.pop(), rf"^{self.folder}/ddprun_\w{{6}}/local_cache/triton$")
        self.assertRegex(out, "kernel.0.0 kernel.0.1 kernel.1")
        self.assertIn("mode 700", out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_the_user_has_set_stays(self):
        own = self.enterContext(tempfile.TemporaryDirectory())
        code, out, err = self.run_job("--local-cache", "sh", "-c", SAY, env={"TRITON_CACHE_DIR": own})
        self.assertEqual(code, 0, err)
        self.assertIn(f"triton {own}\n", out)
        self.assertRegex(out, f"inductor {self.folder}/ddprun_")
        self.assertEqual(os.listdir(own), ["kernel.0.0"])

    def test_without_the_flag_nothing_is_set(self):
        code, out, err = self.run_job("sh", "-c", 'echo "triton <$TRITON_CACHE_DIR>"')
        self.assertEqual((code, out), (0, "triton <>"), err)

    def test_gone_also_after_a_signal(self):
        launcher = self.launch("--local-cache", "sh", "-c", SAY + "echo ready; sleep 1000")
        launcher.wait_for_line("^ready$")
        launcher.send(signal.SIGTERM)
        launcher.wait()
        self.assertEqual(os.listdir(self.folder), [])

    def test_where_none_can_be_made_nothing_starts(self):
        code, out, err = self.run_job("--local-cache", "echo", "started", env={"TMPDIR": "/dev/null/none"})
        self.assertEqual((code, out), (71, ""), err)
        self.assertIn("--local-cache", err)


if __name__ == "__main__":
    main()
