"""The agents' word: a rank killed alone on its host is named on the others before the system has freed its memory."""

import os
import signal

import support
from support import EndToEndTest, free_port, program

MEBIBYTES = 1024
# The word is some 40 ms ahead of the connections; so it is the first at least once, unless it never comes.
TRIES = 5

# Says which process it is, and lives on when its agent ends the job, until it has heard of the death. Without the search
# for leaks at its end, which stops the process by a SIGSTOP that the agent's SIGCONT may discard, and waits for ever.
WORKER = """trap "" TERM; echo "rank $RANK is $$ with <$DDPRUN_LIFE>"
ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" exec "$0" "$@" """


class WordTest(EndToEndTest):
    def agent(self, node_rank, port, nproc, victim):
        return self.launch("--nnodes", 2, "--node-rank", node_rank, "--nproc-per-node", nproc, "--master-addr",
                           "127.0.0.1", "--master-port", port, "sh", "-c", WORKER, program("death_program"), "large",
                           "killed", victim, MEBIBYTES, env={"DDPRUN_HOSTID": f"host-{node_rank}"})

    def kill_the_last_of(self, ranks):
        """What the first agent's workers, all but the last, print."""
        victim, port = ranks - 1, free_port()
        survivors, lonely = self.agent(0, port, victim, victim), self.agent(1, port, 1, victim)
        process = int(lonely.wait_for_line(rf"^rank {victim} is (\d+) with <\d+:\d+:\d+>$")[1])
        lonely.wait_for_line("^ready$")
        survivors.wait_for_line("^ready$", victim)
        os.kill(process, signal.SIGKILL)
        self.assertNotEqual(survivors.wait(), 0)
        self.assertNotEqual(lonely.wait(), 0)
        return survivors.out()

    def test_every_survivor_on_the_other_host_names_the_dead(self):
        for ranks in (2, 4):
            by_word = 0
            for _ in range(TRIES):
                out = self.kill_the_last_of(ranks)
                self.assertEqual(out.count(f"error peer_died {ranks - 1}:"), ranks - 1, out)
                by_word += "its process ended without a goodbye" in out
                if by_word:
                    break
            self.assertGreater(by_word, 0, out)


if __name__ == "__main__":
    support.main()
