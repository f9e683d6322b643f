"""A few "machines" on this one: network namespaces with addresses and names, whose cables can be cut.

A test calls isolate() first, which runs it again in namespaces of its own; there `with NodeNetwork(N) as network` joins
node0 (10.78.0.1), node1 (10.78.0.2), … by a bridge. All of it is gone when the test's process is. Odder networks:

    ipv6=True       no IPv4 between the nodes: they are fd78::1, fd78::2, …
    dead_end=True   each has a second interface, up and with an address (10.79.0.1, …), behind which nobody is; names
                    stand for both addresses, this one first
    named=False     nobody knows the nodes' names, and the name server does not answer
    hosts=LINES     /etc/hosts has these lines in place of the nodes' names, and those of learn(), and the name server refuses
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

ISOLATED = "--isolated"  # said to the script by itself
TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "bridge": "iproute2"}


def isolate():
    """Runs this script again where it may make networks and mount; where that is not permitted, it ends with 77."""
    if sys.argv[1:2] == [ISOLATED]:
        del sys.argv[1]
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # which an ordinary user's may not have
    for tool, package in TOOLS.items():
        if not shutil.which(tool):
            _skip(f"the program {tool} is missing (Debian package {package})")
    # As an ordinary user the namespaces need a user namespace, in which that user is root.
    private = ["unshare", "--net", "--mount", "--uts", "--propagation", "private"]
    if os.geteuid() != 0:
        private += ["--user", "--map-root-user"]
    probe = ("ip link add probe0 type veth peer name probe1 && ip link add probe2 type bridge"
             " && ip link set probe0 master probe2")
    tried = subprocess.run([*private, "sh", "-c", probe], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        _skip("; ".join(tried.stderr.strip().splitlines()))
    sys.stdout.flush()
    os.execvp(private[0], [*private, sys.executable, "-B", sys.argv[0], ISOLATED, *sys.argv[1:]])


def _skip(reason):
    print(f"skipped: it needs network namespaces: {reason}")
    sys.exit(77)


def _do(words):
    done = subprocess.run(words.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}")


class NodeNetwork:
    """Node i is 10.78.0.(i+1), named node<i>; each is held by a process that waits for the end of its input."""

    def __init__(self, nodes, ipv6=False, dead_end=False, named=True, hosts=None):
        self.nodes = nodes
        self.ipv6 = ipv6
        self.dead_end = dead_end
        self.named = named
        self.hosts = hosts
        self.holders = []
        self.at_exit = contextlib.ExitStack()

    def address(self, node):
        return f"fd78::{node + 1}" if self.ipv6 else f"10.78.0.{node + 1}"

    @staticmethod
    def dead_address(node):
        return f"10.79.0.{node + 1}"

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            self._name_nodes(undo)
            _do("ip link add bridge0 type bridge")
            undo.callback(_do, "ip link delete bridge0")
            _do("ip link set bridge0 up")
            for node in range(self.nodes):
                self._join(node, undo)
            self.at_exit = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.at_exit.close()

    def _name_nodes(self, undo):
        hosts = ["127.0.0.1 localhost"]
        for node in range(self.nodes if self.named and self.hosts is None else 0):
            addresses = [self.dead_address(node)] if self.dead_end else []
            hosts += [f"{address} node{node}" for address in (*addresses, self.address(node))]
        self.hosts_file = self._replace("/etc/hosts", [*hosts, *(self.hosts or ())], undo)
        if self.hosts is not None:
            self._replace("/etc/resolv.conf", ["nameserver 127.0.0.1"], undo)
        if not self.named:
            self._replace("/etc/resolv.conf", [f"nameserver {self.dead_address(0)}"], undo)

    @staticmethod
    def _replace(path, lines, undo):
        with tempfile.NamedTemporaryFile("w", delete=False, encoding="ascii") as file:
            undo.callback(os.unlink, file.name)
            file.writelines(line + "\n" for line in lines)
        os.chmod(file.name, 0o644)
        _do(f"mount --bind {file.name} {path}")
        undo.callback(_do, f"umount {path}")
        return file.name

    def learn(self, line):
        """From now on all know that name."""
        with open(self.hosts_file, "a", encoding="ascii") as file:
            file.write(line + "\n")

    def forget(self):
        """All that was learnt."""
        with open(self.hosts_file, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")

    def _join(self, node, undo):
        holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", f"hostname node{node} && echo ready && exec cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holders.append(holder)
        undo.callback(holder.communicate)
        if holder.stdout.readline() != b"ready\n":
            raise AssertionError(f"no namespaces for node {node}")
        inside = f"nsenter --target {holder.pid} --net ip"
        _do(f"ip link add port{node} type veth peer name eth0 netns {holder.pid}")
        undo.callback(_do, f"ip link delete port{node}")
        _do(f"ip link set port{node} master bridge0 up")
        # Without a bridge its other end leads nowhere, as a cable in the wrong switch does.
        if self.dead_end or not self.named:
            _do(f"ip link add dead{node} type veth peer name eth1 netns {holder.pid}")
            undo.callback(_do, f"ip link delete dead{node}")
            _do(f"ip link set dead{node} up")
            _do(f"{inside} address add {self.dead_address(node)}/24 dev eth1")
            _do(f"{inside} link set eth1 up")
        # A new IPv6 address is otherwise not used before it is known that nobody else has it.
        _do(f"{inside} address add {self.address(node)}{'/64' if self.ipv6 else '/24'} dev eth0{' nodad' * self.ipv6}")
        for device in ("eth0", "lo"):
            _do(f"{inside} link set {device} up")

    def prefix(self, node):
        """The words that make a command line run there, in the same process."""
        return ["nsenter", "--target", str(self.holders[node].pid), "--net", "--uts", "--"]

    def run(self, node, argv, **popen):
        return subprocess.Popen([*self.prefix(node), *argv], **popen)

    def cut(self, node):
        """From now on nothing arrives, in either direction, and neither end's device shows it."""
        _do(f"bridge link set dev port{node} state 0")

    def heal(self, node):
        _do(f"bridge link set dev port{node} state 3")
