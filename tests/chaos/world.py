"""The cluster of a chaos run: nodes, and the etcd and the machines that it may have."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("e2e", "fault", "net", "support")]
from etcd_coordinator_test import Etcd  # noqa: E402
from network import Network  # noqa: E402
from processes import Process, Tallyd  # noqa: E402
from proxy import Proxy  # noqa: E402

PORT = 7733
CANDIDATES = 3  # nodes that may coordinate where etcd elects one
KEPT_OUTPUT = 20_000  # characters of the end of each process's log
KEPT_PROCESSES = 40   # of those that have ended


def log_of(process: Process) -> str:
    """The end of its standard error."""
    text = process.output()
    return text[len(process.stdout):][-KEPT_OUTPUT:]


class World(Etcd):
    """A context. Its nodes share this host's memory with the ranks, or each process has a machine of a network.

    With etcd, every node has trees, and the first three elect the coordinator. Without it, one more node `a` coordinates,
    and has no trees.
    """

    def __init__(self, options):
        super().__init__()
        self.TALLYD, self.TALLYCTL, self.fault_rank = options.programs
        letters = [chr(ord("a") + number) for number in range(options.nodes + (0 if options.etcd else 1))]
        self.names = letters
        self.trees = letters if options.etcd else letters[1:]
        self.NAMES = tuple(letters[:CANDIDATES if options.etcd else 1])
        self.has_etcd = options.etcd
        self.log_level = options.log_level
        self.python = options.python
        self.ranks_of_trees = options.ranks if options.trees == "two-level" else 0
        self.network = Network(len(letters) + options.ranks) if options.network else None
        self.past = []  # the last processes that were ended, oldest first, and the ends of their outputs
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> "World":
        with contextlib.ExitStack() as undo:
            if self.network:
                undo.enter_context(self.network)
            undo.callback(self.doCleanups)
            self.setUp()
            self._start()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        self._undo.__exit__(*exception)

    def _start(self) -> None:
        if self.has_etcd:
            self.start_etcd()
            if self.network:
                self.link_nodes()
        for name in self.names:
            self.begin_node(name)
        acting = self.wait_until_whole()
        if self.ranks_of_trees:
            self.ctl("plan", "set", self._two_level_trees(self.ranks_of_trees), node=acting)

    def _two_level_trees(self, ranks: int) -> str:
        """The file of a plan. Every node is the root of one tree and an inner node of two; at least one is in none of the
        three places."""
        workers = [f"w{rank}" for rank in range(ranks)]
        trees = []
        for place in range(len(self.trees)):
            root, *inner = (self.trees[(place + step) % len(self.trees)] for step in range(3))
            trees.append({root: "", **{name: root for name in inner},
                          **{worker: inner[rank % 2] for rank, worker in enumerate(workers)}})
        return self.tree_plan(workers, self.trees, trees)

    # -- machines ------------------------------------------------------------------------------------

    def machine_of_node(self, name: str):
        return self.network.machine(1 + self.names.index(name))

    def machine_of_rank(self, rank: int):
        return self.network.machine(1 + len(self.names) + rank)

    def link_nodes(self) -> None:
        """etcd runs beside the machines. Each candidate has a way there, which ends at its own machine."""
        for name in self.NAMES:
            listener = self.machine_of_node(name).socket(socket.SOCK_STREAM)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            self.links[name] = Proxy(self.ports[0][0], listener)
            self.addCleanup(self.links[name].close)

    # -- nodes ---------------------------------------------------------------------------------------

    def tcp(self, name: str) -> str:
        return f"tcp:{self.machine_of_node(name).address}:{PORT}"

    def addresses(self, names) -> str:
        return ",".join(self.tcp(name) if self.network else self.address(name) for name in names)

    def start_node(self, name: str, *more: str) -> None:
        """Does not wait until the node serves."""
        place = {}
        flags = ["--cluster", self.addresses(self.NAMES), "--cluster-name", name, "--cluster-host", "here"]
        if self.network:
            flags[-1] = name
            flags += ["--listen-tcp", self.tcp(name), "--verbs", "off"]
            place["popen"] = self.machine_of_node(name).popen
        self.nodes[name] = Tallyd(self.TALLYD, "--shards", 1, "--log-level", self.log_level, *flags, *more,
                                  folder=self.place, name=name, wait=False, **place)

    def begin_node(self, name: str) -> None:
        if self.has_etcd and name in self.NAMES:
            self.start_candidate(name)
        else:
            self.start_node(name)

    def kill_node(self, name: str) -> None:
        self.keep_output(f"node {name}", self.nodes[name])
        self.nodes[name].end()

    def wait_until_whole(self) -> str:
        """Until all nodes are members, and those that have no trees are drained. Returns the coordinator."""
        acting = self.wait_for_members(len(self.names))
        if not self.has_etcd:
            self.ctl("drain", self.NAMES[0], node=acting)
        return acting

    def acting(self, healthy) -> str:
        """The coordinator; empty: none of these nodes acts just now."""
        return next((name for name in self.NAMES if name in healthy and self.members(name) > 0), "")

    def crashed(self, killed) -> list:
        """Nodes that have ended, but for those that the run has killed."""
        return [name for name, node in self.nodes.items() if name not in killed and node.poll() is not None]

    # -- etcd and ranks ------------------------------------------------------------------------------

    def begin_etcd(self) -> None:
        self.start_member(0, 1)

    def start_rank(self, job: str, rank: int, ranks: int, elements: int, *more) -> Process:
        return self._on_machine(rank, [self.fault_rank, self.addresses(self.names), job, rank, ranks, elements, *more])

    def start_python_rank(self, program: str, store: str, rank: int, ranks: int, *more, **environment: str) -> Process:
        """A program of this folder. store: the name of a file, which the ranks of one job share."""
        command = [self.python.interpreter, Path(__file__).with_name(program), self.place / store, rank, ranks, *more]
        interface = self.machine_of_rank(rank).interface if self.network else "lo"
        return self._on_machine(rank, command, {**self.python.environment, "GLOO_SOCKET_IFNAME": interface,
                                                "TALLY_ADDRESS": self.addresses(self.names), **environment})

    def _on_machine(self, rank: int, command: list, environment=None) -> Process:
        popen = self.machine_of_rank(rank).popen if self.network else subprocess.Popen
        return Process(command, {"TALLY_HOST": "ranks" if self.network else "here", **(environment or {})}, popen)

    # -- what they printed ---------------------------------------------------------------------------

    def keep_output(self, who: str, process: Process) -> None:
        self.past = [*self.past[1 - KEPT_PROCESSES:], (who, log_of(process))]

    def logs(self, ranks: list) -> str:
        """Of nodes and ranks, also of some that have ended."""
        shown = [*self.past, *((f"node {name}", log_of(node)) for name, node in self.nodes.items()),
                 *((f"rank {number}", log_of(rank)) for number, rank in enumerate(ranks))]
        return "\n".join(f"-- {who}\n{text}" for who, text in shown if text)
