"""Folders that somebody else has taken, that are full, or that go while a job runs."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, program

NOBODY = 65534


class Folders(EndToEndTest):
    """Scripts in a mount namespace of their own, where /tmp is as small as the test wants it and HOME is in it.

    $0 is ddprun, $1 is ddpctl.
    """

    def setUp(self):
        super().setUp()
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"skipped: no mount namespaces here: {tried.stderr.strip()}")

    def script(self, text, size="64m"):
        for name in ("DDPRUN_JOBS_DIR", "XDG_CONFIG_HOME", "TMPDIR"):
            self.environment.pop(name, None)
        begin = f"set -e; mount -t tmpfs -o size={size},mode=1777 none /tmp; mkdir /tmp/home; export HOME=/tmp/home\n"
        if support.BIN.startswith("/tmp/"):
            begin = f"mount --bind {support.BIN} /mnt\n{begin}mkdir -p {support.BIN}; mount --bind /mnt {support.BIN}\n"
        return self.run_job(program("ddpctl"), prefix=("unshare", "-m", "sh", "-c", begin + text))


class TakenFolders(Folders):
    def test_the_name_of_the_jobs_folder_is_taken(self):
        code, out, err = self.script(f'''
            mkdir /tmp/ddprun-0; chown {NOBODY} /tmp/ddprun-0
            "$1" list
            id=$("$0" --detach sh -c "echo first; exit 3")
            "$1" attach $id || echo "code $?"
            "$0" --detach sh -c "exit 4" >/dev/null
            "$1" list | wc -l
            ls -d /tmp/ddprun-0-* | wc -l
            ls -A /tmp/ddprun-0''')
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(out, "(?s)first.*\ncode 3\n3\n1$")


class FullFolders(Folders):
    """Detached jobs, whose folder is often in memory."""

    def test_a_job_that_fills_its_folder_is_not_lost(self):
        code, out, err = self.script("""
            id=$("$0" --detach sh -c 'echo begin; yes | head -c 20000000; echo last words >&2; exit 3')
            "$1" attach $id >/dev/null || echo "code $?"
            "$1" status $id
            "$1" logs $id > /dev/shm/$$
            head -n 1 /dev/shm/$$
            rm /dev/shm/$$""", size="1m")
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(out, "(?m)^code 3$")
        self.assertRegex(out, "(?m)^outcome +failed")
        self.assertRegex(out, "(?m)^begin$")

    def test_output_that_fills_the_disk_while_the_job_starts_does_not_stop_it(self):
        code, out, err = self.script("""
            for i in 1 2 3 4 5 6 7 8 9 10; do
                id=$("$0" --detach --nproc-per-node 4 sh -c 'seq 20000; exit 3')
                "$1" attach $id >/dev/null 2>&1 || echo "code $?"
                rm -r /tmp/ddprun-0/$id
            done""", size="100k")
        self.assertEqual((code, out), (0, "\n".join(["code 3"] * 10)), err)

    def test_a_full_disk_is_said_in_one_line(self):
        for room in (0, 64 * 1024):
            code, out, err = self.script(f"""
                head -c 100m /dev/zero 2>/dev/null > /tmp/full || true
                truncate -s -{room} /tmp/full
                "$0" --detach true || echo "code $?"
                truncate -s 0 /tmp/full
                ls -A /tmp/ddprun-0""", size="1m")
            self.assertEqual((code, out), (0, "code 71"), err)
            self.assertRegex(err, "^ddprun: [^\n]*DDPRUN_JOBS_DIR[^\n]*$")


class VanishingFolders(EndToEndTest):
    """The folder of logs goes while the job runs, as whoever cleans /tmp has it; the workers fail then."""

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.logs = os.path.join(self.folder, "logs")

    def fail_without(self, then):
        script = f'test "$TORCHELASTIC_RESTART_COUNT" = 1 && echo again && exit 0; rm -r "$LOGS"; {then} exit 7'
        return self.run_job("--max-restarts=1", "-r3", "--log-dir", self.logs, "sh", "-c", script,
                            env={"LOGS": self.logs})

    def test_it_is_made_again(self):
        self.assertEqual(self.fail_without(""), (0, "", self.launchers[-1].err()))
        self.assertIn("exit code 7; restart 1 of 1", self.launchers[-1].err())
        files = [os.path.join(path, name) for path, _, names in os.walk(self.logs) for name in names]
        folder, = map(os.path.basename, support.run_folders(self.logs))
        self.assertEqual(sorted(os.path.relpath(path, self.logs) for path in files if os.path.getsize(path)),
                         [f"{folder}/attempt_1/0/stdout.log", f"{folder}/run.json"])

    def test_the_job_goes_on_without_it(self):
        code, out, err = self.fail_without('> "$LOGS";')
        self.assertEqual((code, out), (0, "again"), err)
        self.assertIn("exit code 7 (its error file cannot be read: Not a directory); restart 1 of 1", err)
        self.assertEqual(err.count("--log-dir"), 1, err)


if __name__ == "__main__":
    support.main()
