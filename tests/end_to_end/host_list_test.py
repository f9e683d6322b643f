"""Machines with names of their own find themselves in the list of a Slurm allocation."""

import support
from node_network import NodeNetwork, isolate
from support import EndToEndTest, worker

NODES = 3


class HostNames(EndToEndTest):
    def numbers(self, hosts):
        """Of node0, node1 and node2; node1 hosts."""
        with NodeNetwork(NODES) as network:
            agents = [self.launch("--rdzv-backend=c10d", "--rdzv-endpoint=node1:29400", "--nnodes", NODES, *worker("print-env"),
                                  prefix=network.prefix(number), env={"SLURM_JOB_NODELIST": hosts}) for number in range(NODES)]
            for agent in agents:
                self.assertEqual(agent.wait(), 0, agent.err())
        ranks = [line for agent in agents for line in agent.out().splitlines() if line.startswith("GROUP_RANK=")]
        return [int(line.partition("=")[2]) for line in ranks], "\n".join(agent.err() for agent in agents)

    def test_the_order_of_the_list_counts_and_not_that_of_names(self):
        for hosts in ("node2,node[0-1]", "node2.example,node1.example,node0.example", "spare,node[2,1,0]"):
            numbers, said = self.numbers(hosts)
            self.assertEqual(numbers, [2, 0, 1], hosts)
            self.assertNotIn("NODELIST", said)

    def test_without_a_list_or_in_none_the_names_count(self):
        for hosts, lines in (("", 0), ("other[0-2]", 0), ("node[2,1,0", NODES), ("node[0-65536]", NODES)):
            numbers, said = self.numbers(hosts)
            self.assertEqual(numbers, [1, 0, 2], hosts)
            self.assertEqual(said.count("SLURM_JOB_NODELIST is passed over, and nodes are numbered by their host names"), lines)


if __name__ == "__main__":
    isolate()
    support.main()
