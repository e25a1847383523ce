"""For tests: a job of fault-rank processes over a cluster whose node a coordinates and has no trees."""

from nodes import Cluster
from ports import free_port
from processes import TIMEOUT, Process

ELEMENTS = 1 << 20


class RepairedJob(Cluster):
    FAULT_RANK = ""  # the program; the test sets it

    def start_node(self, name: str, *more: str) -> None:
        self.start(name, "--cluster", self.address("a"), "--cluster-name", name, "--cluster-host", "here", *more,
                   shards=1)

    def nodes_and_ranks(self, names=("b", "c", "d"), ranks: int = 3, network: bool = False, plan: str = "",
                        elements: int = ELEMENTS) -> list:
        """The ranks of a job over these nodes."""
        self.network = network
        for name in ("a", *names):
            self.start_node(name, *self.listening(name))
        self.wait_for(1 + len(names))
        self.ctl("drain", "a")
        if plan:
            self.ctl("plan", "set", plan)
        started = [self.start_rank(rank, ranks, elements) for rank in range(ranks)]
        for rank in started:
            self.assertEqual(rank.line(), "ready")
        return started

    def start_rank(self, rank: int, ranks: int, elements: int, *more: str) -> Process:
        return Process([self.FAULT_RANK, self.address("a"), "train", rank, ranks, elements, *more],
                       environment={"TALLY_HOST": "elsewhere" if self.network else "here"})

    def listening(self, name: str) -> list:
        return ["--listen-tcp", f"tcp:127.0.0.1:{free_port()}", "--verbs", "off"] if self.network else []

    def loop(self, ranks: list, count: int, rounds: int, where: str = "out", tag: int = 7) -> None:
        for rank in ranks:
            rank.send(f"loop {tag} {count} {rounds} {where}")

    def looped(self, ranks: list, rounds: int) -> None:
        for rank in ranks:
            self.assertEqual(rank.line(TIMEOUT), f"looped {rounds} wrong 0")

    def lose(self, name: str) -> None:
        self.nodes.pop(name).kill()

    def end(self, ranks: list) -> None:
        for rank in ranks:
            rank.send("close")
        for rank in ranks:
            self.assertEqual(rank.line(), "closed")
            rank.send("exit")
        for rank in ranks:
            self.assertEqual(rank.wait(), 0)
        self.nothing_left()
