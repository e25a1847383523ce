"""What a fault does to its victim, and how it is undone."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from schedule import Fault, promise, together


@dataclass
class Injected:
    fault: Fault
    at: float           # on the monotonic clock
    victim: str = ""
    skipped: str = ""   # why it was not injected
    promise: str = ""   # what the job must do
    coordinates: bool = False  # whether the victim is the coordinator
    undone: float = 0.0

    @property
    def kind(self) -> str:
        """What reports count together."""
        return f"{self.fault.kind} {'coordinator' if self.coordinates else self.fault.target}"


class Injector:
    """Injects faults into a world and the job that `job()` returns. One victim has one fault at a time."""

    def __init__(self, world, job: Callable, options):
        self._world, self._job, self._options = world, job, options
        self._undo: dict[int, tuple[Injected, Callable[[], None]]] = {}
        self.renew = False  # whether the job has to be started anew, because nothing repairs it any more

    @property
    def active(self) -> list:
        return [injected for injected, _ in self._undo.values()]

    def killed_nodes(self) -> set:
        return {one.victim.removeprefix("node ") for one in self.active if one.fault.kind == "kill"}

    def paused_ranks(self) -> bool:
        """Whether a rank cannot go on because of a fault that is not undone."""
        return any(one.fault.target == "ranks" for one in self.active)

    def begin(self, fault: Fault) -> Injected:
        injected = Injected(fault, time.monotonic())
        acting = self._acting() if fault.target in ("nodes", "coordinator") else ""
        injected.victim = self._victim(fault, acting)
        injected.coordinates = bool(acting) and injected.victim == f"node {acting}"
        if not injected.victim:
            injected.skipped = "no node coordinates just now"
        elif any(one.victim == injected.victim for one in self.active):
            injected.skipped = f"{injected.victim} has another fault"
        elif fault.target == "ranks" and not self._job().ranks:
            injected.skipped = "no job"
        if injected.skipped:
            return injected
        own = promise(fault.kind, fault.target, self._options.etcd, bool(self._options.on_rank_loss))
        injected.promise = together(own, fault.target, [one.fault.target for one in self.active],
                                    bool(self._options.on_rank_loss))
        job = self._job()
        if fault.target == "ranks":
            job.fault_begins(fault.victim)
        undo = getattr(self, "_" + fault.kind.replace("-", "_"))(injected)
        self._undo[fault.number] = (injected, self._for_job(fault, undo, job))
        return injected

    def end(self, fault: Fault) -> None:
        if found := self._undo.pop(fault.number, None):
            found[1]()
            found[0].undone = time.monotonic()

    def end_all(self) -> None:
        for injected in self.active:
            self.end(injected.fault)

    def _for_job(self, fault: Fault, undo: Callable[[], None], job) -> Callable[[], None]:
        """Tells the job of a rank's fault that this is over."""
        def undo_and_tell() -> None:
            undo()
            if fault.target == "ranks" and self._job() is job:
                job.fault_ends(fault.victim)
        return undo_and_tell

    # -- victims -------------------------------------------------------------------------------------

    def _acting(self) -> str:
        """The coordinator; empty: no node acts just now. A node with a fault may not answer."""
        healthy = set(self._world.names) - {one.victim.removeprefix("node ") for one in self.active}
        return self._world.acting(healthy)

    def _victim(self, fault: Fault, acting: str) -> str:
        if fault.target == "nodes":
            return f"node {self._world.trees[fault.victim]}"
        if fault.target == "coordinator":
            return f"node {acting}" if acting else ""
        return f"{'rank' if fault.target == 'ranks' else 'etcd'} {fault.victim}"

    def _process(self, victim: str):
        kind, name = victim.split()
        if kind == "node":
            return self._world.nodes[name]
        return self._world.etcd[0] if kind == "etcd" else self._job().ranks[int(name)]

    def _machine(self, victim: str):
        kind, name = victim.split()
        return self._world.machine_of_node(name) if kind == "node" else self._world.machine_of_rank(int(name))

    # -- kinds: each injects the fault, and returns what undoes it ---------------------------------------

    def _kill(self, injected: Injected) -> Callable[[], None]:
        kind, name = injected.victim.split()
        if kind == "rank":
            self._process(injected.victim).kill()
            return lambda: None  # the job starts the rank again, or starts anew
        if kind == "etcd":
            self._world.etcd[0].end()
            return self._world.begin_etcd
        self._world.kill_node(name)
        lone = injected.fault.target == "coordinator" and not self._options.etcd
        return lambda: self._start_again(name, lone)

    def _start_again(self, name: str, lone: bool) -> None:
        self._world.begin_node(name)
        if lone:
            self._world.wait_until_whole()
            self.renew = True

    def _stop(self, injected: Injected) -> Callable[[], None]:
        process = self._process(injected.victim)
        process.pause()
        return process.resume  # no effect where the process has ended

    def _partition(self, injected: Injected) -> Callable[[], None]:
        """Its cable loses all packets in both directions. No connection ends."""
        machine = self._machine(injected.victim)
        machine.lose(1.0)
        return self._with_etcd(injected.victim, lambda: machine.lose(0))

    def _one_way(self, injected: Injected) -> Callable[[], None]:
        machine = self._machine(injected.victim)
        ways = [(machine, other) if injected.fault.inwards else (other, machine)
                for other in self._world.network.machines if other is not machine]
        for receiver, sender in ways:
            receiver.drop_from(sender)

        def undo() -> None:
            for receiver, sender in ways:
                receiver.accept_from(sender)
        return self._with_etcd(injected.victim, undo)

    def _unplug(self, injected: Injected) -> Callable[[], None]:
        machine = self._machine(injected.victim)
        machine.unplug()
        return self._with_etcd(injected.victim, machine.plug)

    def _with_etcd(self, victim: str, undo: Callable[[], None]) -> Callable[[], None]:
        """A node without a network does not reach etcd either."""
        link = self._world.links.get(victim.removeprefix("node "))
        if link is None:
            return undo
        link.cut()

        def undo_both() -> None:
            undo()
            link.restore()
        return undo_both
