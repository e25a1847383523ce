"""The checks of a recording, and what they found."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from .connections import Connection, Options, PsnClass, Sequence, Violation, connections
from .files import Frame, Unreadable
from .packets import REQUESTS, Kind, Malformed, Packet, is_roce, read_packet
from .rules.acknowledgements import check_acknowledgements
from .rules.cnp import check_cnp
from .rules.go_back_n import check_go_back_n
from .rules.icrc import check_icrc
from .rules.read import check_read

OF_HALVES = {"go_back_n": check_go_back_n, "read": check_read, "acknowledgements": check_acknowledgements}
RULES = ("form", "icrc", *OF_HALVES, "cnp")


@dataclass(slots=True)
class End:
    """What one end of a connection sent."""
    address: str
    pair: int | None  # the end's own queue pair; None: no packet for it was recorded
    packets: int = 0
    bytes: int = 0  # of payload
    messages: int = 0  # SENDs, WRITEs, READs and ATOMICs
    reads: int = 0
    again: int = 0  # request packets that were sent again
    responses: int = 0  # packets of READ responses
    naks: int = 0
    not_ready: int = 0  # RNR NAKs
    notices: int = 0  # congestion notification packets (CNPs)
    marked: int = 0  # by ECN


@dataclass(slots=True)
class Report:
    frames: int = 0
    packets: int = 0  # of RoCEv2
    others: int = 0  # those of them that belong to no reliable connection
    connections: list[tuple[int, int, End, End]] = field(default_factory=list)  # number, MTU, ends
    violations: list[Violation] = field(default_factory=list)

    def as_json(self) -> dict:
        return {"frames": self.frames, "packets": self.packets, "others": self.others,
                "connections": [{"number": number, "mtu": mtu, "ends": [asdict(one), asdict(other)]}
                                for number, mtu, one, other in self.connections],
                "violations": [asdict(violation) for violation in self.violations]}


def _end_of(connection: Connection, side: int) -> End:
    flow, back = connection.flows[side], connection.flows[1 - side]
    end = End(flow.source, back.pair if back.packets else None)
    sequence = Sequence(connection.mtu)
    for packet in flow.packets:
        end.packets += 1
        end.bytes += len(packet.payload)
        end.responses += packet.kind is Kind.RESPONSE
        end.notices += packet.kind is Kind.CONGESTION
        end.marked += packet.is_congested
        if packet.kind is Kind.ACKNOWLEDGE:
            end.naks += packet.aeth.is_refusal
            end.not_ready += packet.aeth.is_not_ready
        if packet.kind in REQUESTS:
            is_again = sequence.take(packet) is PsnClass.AGAIN
            end.again += is_again
            end.messages += packet.opcode.ends and not is_again
            end.reads += packet.kind is Kind.READ and not is_again
    return end


def _packets(frames: Iterator[Frame], name: str, report: Report) -> Iterator[Packet]:
    for frame in frames:
        report.frames += 1
        if not is_roce(frame.content):
            continue
        if not frame.is_whole:
            raise Unreadable(f"{name}: only the beginning of frame {frame.number} was recorded: record whole frames "
                             "(tcpdump -s 0)")
        report.packets += 1
        try:
            yield read_packet(frame.number, frame.time, frame.content)
        except Malformed as error:
            report.violations.append(Violation(frame.number, "form", str(error)))


def check(frames: Iterator[Frame], name: str, options: Options, rules: tuple[str, ...] = RULES) -> Report:
    """Raises Unreadable."""
    report = Report()
    packets = list(_packets(frames, name, report))
    found = report.violations
    report.others = sum(packet.kind is Kind.OTHER for packet in packets)
    if "icrc" in rules:
        found += check_icrc(packets)
    for connection in connections(packets, options):
        first = len(found)
        report.connections.append((connection.number, connection.mtu, _end_of(connection, 0), _end_of(connection, 1)))
        for half in connection.halves(options):
            for rule, function in OF_HALVES.items():
                found += function(half) if rule in rules else ()
        if "cnp" in rules:
            found += check_cnp(connection, options)
        for violation in found[first:]:
            violation.connection = connection.number
    report.violations = sorted((one for one in found if one.rule in rules), key=lambda one: one.frame)
    return report
