"""What ranks of the collectives library prove to each other, who has the key for it, and where that is not found."""

import glob
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from support import EndToEndTest, Launcher, free_port, program

SECRET = "a-secret-for-tests-0123456789"
TOLD = re.compile(r"^key <(\w*)> at <([\w.:]*)> of <([\w.:]*)>$", re.MULTILINE)
TELL = 'echo "key <$DDPRUN_MESH_KEY> at <$DDPRUN_NODE_ADDR> of <$DDPRUN_MASTER_ADDR>"'
# HelloAnswer of collectives/wire/frame.hpp.
WELCOME, REPEATED, KEY_WANTED, PROVE = 0, 5, 7, 9


def read_from_store(port, key):
    """The value in PyTorch's protocol before 2.1; waits until it is there."""
    name = struct.pack("<Q", len(key)) + key.encode()
    with socket.create_connection(("127.0.0.1", port), timeout=support.HANG_GUARD) as store:
        store.sendall(b"\x05" + struct.pack("<Q", 1) + name)
        assert store.recv(1) == b"\x00"
        store.sendall(b"\x02" + name)
        with store.makefile("rb") as answer:
            return answer.read(struct.unpack("<Q", answer.read(8))[0]).decode()


def say_hello(rank_1, nonce, challenge):
    """As rank 0 that dials rank 1 for data; the connection, and the answer."""
    link = socket.create_connection(rank_1, timeout=support.HANG_GUARD)
    link.sendall(struct.pack("<IHBBIIii16sI16s", 0x43504444, 4, 1, 0, 0, 1, 0, 1, nonce,
                             0 if challenge is None else 1, challenge or bytes(16)))
    return link, struct.unpack("<II", link.recv(8, socket.MSG_WAITALL))[1]


class MeshTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun_mesh_")
        self.addCleanup(self.folder.cleanup)
        self.port = free_port()

    def agent(self, rank, *words, nodes=2, **variables):
        environment = {**os.environ, "XDG_CONFIG_HOME": self.folder.name, "DDPRUN_JOBS_DIR": self.folder.name,
                       "DDPRUN_MESH_KEY": "an-outer-jobs", "DDPRUN_NODE_ADDR": "10.9.8.7", **variables}
        launcher = Launcher([f"--nnodes={nodes}", f"--node-rank={rank}", "--master-addr=127.0.0.1",
                             f"--master-port={self.port}", *words], env=environment)
        self.addCleanup(launcher.process.kill)
        return launcher

    def both(self, *words, **variables):
        return [self.agent(rank, *words, **variables) for rank in (0, 1)]

    def assert_succeeded(self, agents):
        self.assertEqual([agent.wait() for agent in agents], [0] * len(agents), "".join(agent.err() for agent in agents))

    def test_nodes_with_a_secret_have_one_key_a_round_which_nobody_else_hears_of(self):
        result = os.path.join(self.folder.name, "result.json")
        words = ["--verbose", "--max-restarts=1", f"--result-file={result}", f"--log-file={self.folder.name}/log", "sh", "-c",
                 f"{TELL}; exit $((3 * (1 - DDPRUN_ROUND)))"]
        agents = [self.agent(rank, *words, DDPRUN_SECRET=SECRET) for rank in (0, 1)]
        self.assert_succeeded(agents)
        told = [TOLD.findall(agent.out()) for agent in agents]
        keys = [[key for key, _, _ in rounds] for rounds in told]
        # A node's worker may be stopped in the first round before it has told anything.
        everything = {key for rounds in keys for key in rounds}
        self.assertEqual(len(everything), 2)
        self.assertEqual(keys[0][-1], keys[1][-1])
        for key in everything:
            self.assertRegex(key, "^[0-9a-f]{64}$")
        self.assertEqual({(own, host) for rounds in told for _, own, host in rounds}, {("127.0.0.1", "127.0.0.1")})
        said = "".join(agent.err() for agent in agents)
        for name in ("log", "result.json"):
            with open(os.path.join(self.folder.name, name), encoding="utf-8") as file:
                said += file.read()
        for key in everything:
            self.assertNotIn(key, said)

    def test_nodes_without_a_secret_have_no_key_and_a_single_node_has_one(self):
        agents = self.both("sh", "-c", TELL)
        self.assert_succeeded(agents)
        for agent in agents:
            self.assertEqual(TOLD.findall(agent.out()), [("", "127.0.0.1", "127.0.0.1")])
        alone = self.agent(0, "--nproc-per-node=2", "sh", "-c", TELL, nodes=1)
        self.assert_succeeded([alone])
        first, second = TOLD.findall(alone.out())
        self.assertEqual(first, second)
        self.assertRegex(first[0], "^[0-9a-f]{64}$")
        self.assertEqual(first[1:], ("127.0.0.1", "127.0.0.1"))

    def test_the_key_is_not_in_what_a_detached_job_leaves(self):
        environment = {**os.environ, "XDG_CONFIG_HOME": self.folder.name, "DDPRUN_JOBS_DIR": self.folder.name}
        told = os.path.join(self.folder.name, "told")
        os.mkfifo(told)
        started = subprocess.run([program("ddprun"), "--detach", "sh", "-c", f"{TELL} >{told}; exec sleep 1000"],
                                 capture_output=True, text=True, env=environment, check=True, timeout=support.HANG_GUARD)
        name = re.search(r"\S+", started.stdout).group()
        try:
            with open(told, encoding="utf-8") as file:
                key = TOLD.search(file.read()).group(1)
            files = [path for path in glob.glob(f"{self.folder.name}/ddprun/**", recursive=True) if os.path.isfile(path)]
            self.assertTrue(files)
            for path in files:
                with open(path, "rb") as file:
                    self.assertNotIn(key.encode(), file.read(), path)
        finally:
            subprocess.run([program("ddpctl"), "kill", name], env=environment, capture_output=True, check=False,
                           timeout=support.HANG_GUARD)

    def test_collectives_work_with_the_key(self):
        for transport in ("auto", "tcp"):
            agents = self.both("--nproc-per-node=2", program("collective_program"), "check-all", DDPRUN_SECRET=SECRET,
                               DDPRUN_TRANSPORT=transport)
            self.assert_succeeded(agents)
            self.assertIn("of 4: ok", agents[1].out())

    def attacked(self, *challenges, **variables):
        """The agents of a job whose store a stranger has read; then it is rank 0 that dials rank 1, once with each challenge:
        the connections, with rank 1's answers."""
        agents = self.both("sh", "-c", f"echo ready; exec {program('collective_program')} use-for-ever",
                           DDPRUN_TRANSPORT="tcp", **variables)
        agents[0].wait_for_line("^ready$")
        lines = read_from_store(self.port, "/ddprun/communicators/0/1/table").splitlines()
        nonce = bytes.fromhex(lines[0])
        host, port = lines[2].split()[0].rsplit(":", 1)
        links = [say_hello((host, int(port)), nonce, challenge) for challenge in challenges]
        for link, _ in links:
            self.addCleanup(link.close)
        return agents, links

    def end(self, agents):
        agents[0].send(signal.SIGTERM)
        self.assertEqual([agent.wait() for agent in agents], [143, 143], "".join(agent.err() for agent in agents))

    def test_who_has_read_all_of_the_store_cannot_take_a_ranks_place(self):
        agents, ((_, without_proof), (link, with_challenge)) = self.attacked(
            None, os.urandom(16), DDPRUN_SECRET=SECRET)
        self.assertEqual((without_proof, with_challenge), (KEY_WANTED, PROVE))
        offer = link.recv(48, socket.MSG_WAITALL)
        # What the rank has sent itself is the best that a stranger has.
        link.sendall(offer[16:])
        self.assertEqual(link.recv(1), b"")
        self.end(agents)

    def test_without_a_key_who_has_read_the_store_is_taken_for_a_rank(self):
        agents, ((_, answer),) = self.attacked(None)
        self.assertIn(answer, (WELCOME, REPEATED))
        agents[0].send(signal.SIGTERM)
        for agent in agents:
            agent.wait()


if __name__ == "__main__":
    support.main()
