"""Connections in a recording: which packets belong together, and what is known of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from .packets import ANSWERS, REQUESTS, Kind, Packet, after, forward, packets_of

_LEAST_MTU, _MOST_MTU = 256, 4096
_SAMPLE = 200  # answers that decide which two directions belong together


@dataclass(slots=True)
class Violation:
    frame: int
    rule: str
    text: str
    connection: int = 0  # its number; 0: the violation is of a single packet


@dataclass(slots=True)
class Options:
    mtu: int = 0  # of connections whose packets do not show it; 0: from the longest payload
    recorded_at: str = ""  # the address whose packets are all in the recording; empty: all addresses
    notice_spacing: int = 0  # nanoseconds between two congestion notifications; 0: any


@dataclass(slots=True)
class Flow:
    """What one address sends to a queue pair of another one."""
    source: str
    target: str
    pair: int
    packets: list[Packet] = field(default_factory=list)


class PsnClass(Enum):
    NEW = "new"  # at the next PSN
    GAP = "gap"  # later: PSNs are skipped
    AGAIN = "again"  # before the next PSN


class Sequence:
    """The PSNs of a requester. A READ takes as many as its answer has packets (section 9.7.2)."""

    def __init__(self, mtu: int):
        self.mtu = mtu
        self.first: int | None = None  # of the recording; earlier ones are not known
        self.end = 0  # the next new PSN

    def count_of(self, packet: Packet) -> int:
        return packets_of(packet.reth.bytes, self.mtu) if packet.kind is Kind.READ else 1

    def take(self, packet: Packet) -> PsnClass:
        distance = 0 if self.first is None else after(packet.psn, self.end)
        if distance < 0:
            return PsnClass.AGAIN
        if self.first is None:
            self.first = packet.psn
        self.end = forward(packet.psn, self.count_of(packet))
        return PsnClass.GAP if distance > 0 else PsnClass.NEW

    def has(self, psn: int) -> bool:
        """Whether the PSN was sent, in the recording or perhaps before it."""
        return self.first is None or after(psn, self.end) < 0

    def is_before_all(self, psn: int) -> bool:
        return self.first is None or after(psn, self.first) < 0


@dataclass(slots=True)
class Half:
    """The requests of one end, and the other end's answers, in the order of the recording."""
    packets: list[Packet]  # requests and answers
    mtu: int
    has_all_requests: bool  # no request can have been lost before the recorder
    has_all_answers: bool


@dataclass(slots=True)
class Connection:
    number: int
    flows: tuple[Flow, Flow]  # the second may be empty
    mtu: int

    def packets(self) -> list[tuple[int, Packet]]:
        """All packets in the order of the recording, each with the index of its flow."""
        both = [(side, packet) for side, flow in enumerate(self.flows) for packet in flow.packets]
        return sorted(both, key=lambda one: one[1].frame)

    def halves(self, options: Options) -> Iterator[Half]:
        merged = self.packets()
        for side, flow in enumerate(self.flows):
            packets = [packet for at, packet in merged
                       if packet.kind in (REQUESTS if at == side else ANSWERS)]
            if packets:
                yield Half(packets, self.mtu, options.recorded_at in ("", flow.source),
                           options.recorded_at in ("", flow.target))


def _mtu_of(flows: Iterable[Flow], options: Options) -> int:
    """First and middle packets have a payload of the path's MTU. Without them, each message counts as one packet."""
    full, most = Counter(), 0
    for flow in flows:
        for packet in flow.packets:
            if packet.is_intact and not packet.opcode.ends:
                full[len(packet.payload)] += 1
            most = max(most, len(packet.payload))
    if full:
        return full.most_common(1)[0][0]
    mtu = _LEAST_MTU
    while mtu < min(most, _MOST_MTU):
        mtu *= 2
    return options.mtu or mtu


def _range_of(flow: Flow) -> tuple[int, int] | None:
    """The first PSN of the requests, and the one after the last."""
    sequence = Sequence(_LEAST_MTU)
    for packet in flow.packets:
        if packet.kind in REQUESTS and packet.is_intact:
            sequence.take(packet)
    return None if sequence.first is None else (sequence.first, sequence.end)


def _score(one: Flow, other: Flow) -> int:
    """How many answers of either fit the requests of the other, minus those that do not."""
    score = 0
    for requests, answers in ((one, other), (other, one)):
        known = _range_of(requests)
        sample = [packet for packet in answers.packets if packet.kind in ANSWERS][:_SAMPLE]
        for packet in sample if known else ():
            fits = after(packet.psn, known[0]) >= 0 and after(packet.psn, known[1]) < 0
            score += 1 if fits else -1
    return score


def _pairs_of(ones: list[Flow], others: list[Flow]) -> Iterator[tuple[Flow, Flow]]:
    """A packet names only the queue pair that receives it. PSNs show which two directions are one connection."""
    if len(ones) == len(others) == 1:
        yield ones[0], others[0]
        return
    scores = [(_score(one, other), -i, -j) for i, one in enumerate(ones) for j, other in enumerate(others)]
    left_ones, left_others = dict(enumerate(ones)), dict(enumerate(others))
    for score, i, j in sorted(scores, reverse=True):
        if score > 0 and -i in left_ones and -j in left_others:
            yield left_ones.pop(-i), left_others.pop(-j)
    for one in left_ones.values():
        yield one, Flow(one.target, one.source, 0)
    for other in left_others.values():
        yield other, Flow(other.target, other.source, 0)


def connections(packets: Iterable[Packet], options: Options) -> list[Connection]:
    """The reliable connections, in the order of their first packets."""
    flows: dict[tuple[str, str, int], Flow] = {}
    for packet in packets:
        if packet.kind is Kind.OTHER:
            continue
        key = (packet.source, packet.target, packet.pair)
        flow = flows.get(key)
        if flow is None:
            flow = flows[key] = Flow(*key)
        flow.packets.append(packet)
    between: dict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow in flows.values():
        between[flow.source, flow.target].append(flow)
    found = []
    for (source, target), ones in between.items():
        if source <= target or (target, source) not in between:
            found += _pairs_of(ones, between.get((target, source), []))
    found = [pair if not pair[1].packets or pair[0].packets[0].frame < pair[1].packets[0].frame else pair[::-1]
             for pair in found]
    found.sort(key=lambda pair: pair[0].packets[0].frame)
    return [Connection(number, pair, _mtu_of(pair, options)) for number, pair in enumerate(found, 1)]
