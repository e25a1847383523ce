"""Which faults a run injects, and when: a pure function of the seed and the options."""

import random
from dataclasses import dataclass

KINDS = ("kill", "stop", "partition", "one-way", "unplug")
TARGETS = ("nodes", "coordinator", "ranks", "etcd")
OF_NETWORK = ("partition", "one-way", "unplug")  # kinds that need machines with cables of their own

SURVIVES = "survives"  # the product promises that the job goes on, without a failed operation
MAY_END = "may end"    # the product promises that operations end; the job may end with an error
ENDS = "ends"          # the job ends today


@dataclass(frozen=True)
class Fault:
    number: int
    at: float     # seconds after the first moment at which faults are injected
    hold: float   # seconds until it is undone: the process starts again or continues, the cable is back
    kind: str
    target: str
    victim: int   # which of the target; the coordinator is the acting one
    inwards: bool  # of a one-way fault: nothing arrives at the victim; False: nothing that it sends arrives

    def __str__(self) -> str:
        way = f" {'to' if self.inwards else 'from'}" if self.kind == "one-way" else ""
        who = "the coordinator" if self.target == "coordinator" else f"{self.target} {self.victim}"
        return f"{self.number:4}  {self.at:8.2f} s  {self.kind}{way} {who} for {self.hold:.2f} s"


def promise(kind: str, target: str, etcd: bool, finish: bool = False) -> str:
    """What the product says about a job when this fault is the only one. finish: the job goes on without lost ranks."""
    if target == "ranks" and not finish:
        return ENDS if kind == "kill" else MAY_END
    if target == "coordinator" and not etcd:
        return MAY_END  # it runs on, but nothing repairs it any more: run.py starts it anew
    return SURVIVES


def together(own: str, target: str, others: list, finish: bool) -> str:
    """What it says while these targets have faults too. With finish, a job survives the loss of ranks and one node."""
    at_once = [one for one in [target, *others] if not finish or one != "ranks"]
    return own if not others or len(at_once) < 2 else MAY_END


def possible(kinds: list, targets: list, network: bool, etcd: bool) -> list:
    """The pairs of kind and target that this cluster can have."""
    return [(kind, target) for kind in kinds for target in targets
            if (network or kind not in OF_NETWORK) and (etcd or target != "etcd")
            and not (target == "etcd" and kind in OF_NETWORK)]


def plan(seed: int, count: int, every: float, hold: float, pairs: list, sizes: dict, late: float = 0.0) -> list:
    """Fault I of a seed is the same whatever the number of faults is. sizes: how many there are, by target.

    late: about half of the ranks that do not go on, but live, are held so much longer.
    """
    faults = []
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        kind, target = dice.choice(pairs)
        held = round(dice.uniform(hold / 4, hold), 2)
        victim = dice.randrange(sizes[target])
        inwards = dice.random() < 0.5
        if late and inwards and target == "ranks" and kind != "kill":
            held += late
        faults.append(Fault(number=number, at=number * every, hold=held, kind=kind, target=target, victim=victim,
                            inwards=inwards))
    return faults
