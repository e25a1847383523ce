"""Each packet of an answer to a READ fits a request: PSN, opcode, length, and the packet before it.

Source: InfiniBand Architecture Specification 1.4, volume 1, section 9.4.4 (READ operation), 9.7.2 (PSNs of answers),
9.7.5.1.2 and table 38 (which packets have an AETH).
"""

from collections.abc import Iterator

from ..connections import Half, Violation
from ..packets import Kind, Packet, after, forward
from ..reads import Reads


def _difference(packet: Packet, place: int, count: int, request: Packet, mtu: int) -> str:
    """What is wrong with the packet that has this index in the answer to the request; empty: nothing."""
    starts, ends = place == 0, place == count - 1
    if (packet.opcode.starts, packet.opcode.ends) != (starts, ends):
        name = "only" if starts and ends else "first" if starts else "last" if ends else "middle"
        return f"is \"{packet.opcode.name}\" in the place of \"{name}\""
    length = min(mtu, request.reth.bytes - place * mtu)
    if len(packet.payload) != length:
        return f"has {len(packet.payload)} bytes and not {length}"
    return ""


def check_read(half: Half) -> Iterator[Violation]:
    reads = Reads(half.mtu)
    first = None  # PSN of the first request, of any kind
    previous = None  # PSN of the answer before
    for packet in half.packets:
        if not packet.is_intact:
            previous = None  # it may be a response, of any PSN
            continue
        if packet.kind is Kind.ACKNOWLEDGE:
            continue
        if packet.kind is not Kind.RESPONSE:
            first = packet.psn if first is None else first
            if packet.kind is Kind.READ:
                reads.add(packet)
            continue
        asked = list(reads.covering(packet.psn))
        follows = previous is None or packet.psn == forward(previous, 1)
        previous = packet.psn
        if packet.aeth is not None and not packet.aeth.is_positive:
            yield Violation(packet.frame, "read", f"a READ response with the syndrome {packet.aeth.syndrome:#04x}, "
                            "which is no acknowledgement")
        if not asked:
            # Else its request may have been sent before the recording began.
            if first is not None and after(packet.psn, first) >= 0:
                yield Violation(packet.frame, "read", f"a READ response for PSN {packet.psn}, which no READ asks for")
            continue
        differences = [_difference(packet, *one, half.mtu) for one in asked]
        if all(differences):
            yield Violation(packet.frame, "read", f"the READ response for PSN {packet.psn} {differences[0]} (request: "
                            f"frame {asked[0][2].frame})")
        elif half.has_all_answers and not follows and all(place > 0 for place, _, _ in asked):
            yield Violation(packet.frame, "read", f"the READ response for PSN {packet.psn} does not follow the one "
                            "before it, and no READ begins there")
