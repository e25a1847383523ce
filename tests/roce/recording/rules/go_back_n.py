"""New requests have consecutive PSNs, and what is sent again is what was sent before, in the order of go-back-N.

A single packet may be sent again at any time, as a probe or because the answer to a READ is missing. A negative
acknowledgement (NAK) in the recording may be lost on its way to the requester. So a NAK counts from the time at which
the requester sends again what the NAK asks for, or sends several packets again from a later PSN on.

Source: InfiniBand Architecture Specification 1.4, volume 1, section 9.7.2 (PSNs), 9.7.4.1 (order of packets in
messages), 9.7.5.1.2 and 9.7.5.2.8 (NAK, RNR NAK), 9.4.4 (READs that are asked again).
"""

from collections.abc import Iterator

from ..connections import Half, PsnClass, Sequence, Violation
from ..packets import REQUESTS, Kind, Packet, after, forward
from ..reads import Reads


class _Order:
    """The order of packets in messages: first, middle, last."""

    def __init__(self, mtu: int):
        self._mtu = mtu
        self._open: Packet | None = None  # the first packet of a message that has not ended
        self._left: int | None = None  # bytes of a WRITE
        self._is_known = False  # whether the packet before the next one is known

    def forget(self) -> None:
        self._is_known = False

    def _wrong_place(self, packet: Packet) -> str:
        if not self._is_known:
            return ""
        if packet.opcode.starts and self._open is not None:
            return f"begins before the message of frame {self._open.frame} has ended"
        if not packet.opcode.starts and (self._open is None or self._open.kind is not packet.kind):
            return f"continues a {packet.kind.value} that has not begun"
        return ""

    def _wrong_length(self, packet: Packet) -> str:
        length = len(packet.payload)
        if packet.kind not in (Kind.SEND, Kind.WRITE):
            return ""
        if length > self._mtu or (length < self._mtu and not packet.opcode.ends):
            return f"has a payload of {length} bytes, and the MTU is {self._mtu}"
        if length == 0 and not packet.opcode.starts:
            return "has no payload"
        if self._left is not None and (self._left != 0 if packet.opcode.ends else self._left <= 0):
            return f"leaves {self._left} bytes of the length in the WRITE's first packet"
        return ""

    def wrong(self, packet: Packet) -> str:
        """What is wrong with a new packet; empty: nothing."""
        wrong_place = self._wrong_place(packet)
        if packet.opcode.starts:
            self._open = packet
            self._left = packet.reth.bytes if packet.kind is Kind.WRITE else None
        elif not self._is_known or wrong_place:
            self._left = None
        if self._left is not None:
            self._left -= len(packet.payload)
        wrong = wrong_place or self._wrong_length(packet)
        if wrong:
            self._left = None
        if packet.opcode.ends:
            self._open = None
        elif self._open is None:
            self._open = packet
        self._is_known = True
        return wrong


class _Repeats:
    """Whether the requester sends again what a NAK asks for."""

    def __init__(self):
        self.acknowledged: int | None = None  # the responder has all before it
        self._asked: int | None = None  # PSN of a NAK, until the requester goes back to it
        self._asked_frame = 0
        self._began: int | None = None  # where the requester went back to
        self._began_frame = 0
        self._again: dict[int, int] = {}  # since then: PSN and number of PSNs
        self._continues: set[int] = set()  # PSNs after what was sent again
        self._passed: int | None = None  # where it began to send again after the PSN of the NAK

    def acknowledge(self, psn: int) -> None:
        if self.acknowledged is None or after(psn, self.acknowledged) > 0:
            self.acknowledged = psn

    def refuse(self, packet: Packet) -> None:
        self.acknowledge(packet.psn)
        if packet.psn == self.acknowledged:
            self._asked, self._asked_frame, self._passed = packet.psn, packet.frame, None

    def _is_open(self, psn: int) -> bool:
        return self.acknowledged is None or after(psn, self.acknowledged) >= 0

    def sent_again(self, psn: int, count: int) -> str:
        """What is wrong with it; empty: nothing."""
        wrong = ""
        if psn == self._asked:
            self._began, self._began_frame, self._again = psn, self._asked_frame, {}
            self._asked = None
        if self._asked is not None and self._is_open(self._asked) and after(psn, self._asked) > 0:
            if psn == self._passed:
                wrong = f"continues after PSN {self._asked}, which the NAK of frame {self._asked_frame} asks for"
                self._asked = None
            elif psn not in self._continues:
                self._passed = forward(psn, count)
        self._continues.add(forward(psn, count))
        self._again[psn] = count
        return wrong

    def sent_new(self, end: int) -> str:
        """What is wrong with a new packet at this PSN; empty: nothing."""
        began, self._began = self._began, None
        self._continues.clear()
        self._passed = None
        psn = began
        while psn is not None and after(psn, end) < 0:
            if not self._is_open(psn):
                psn = self.acknowledged
            elif psn in self._again:
                psn = forward(psn, self._again[psn])
            else:
                return f"is new, but PSN {psn} was not sent again after the NAK of frame {self._began_frame}"
        return ""


class _Requester:
    def __init__(self, half: Half):
        self._half = half
        self._sequence = Sequence(half.mtu)
        self._order = _Order(half.mtu)
        self._repeats = _Repeats()
        self._reads = Reads(half.mtu)
        self._sent: dict[int, Packet] = {}  # by PSN, of READs the first one
        self._missing: set[int] = set()  # skipped PSNs

    def request(self, packet: Packet) -> Iterator[str]:
        if not packet.is_intact and packet.psn != self._sequence.end:
            return  # its PSN may be what is damaged
        end = self._sequence.end
        psn_class = self._sequence.take(packet)
        if psn_class is PsnClass.AGAIN:
            yield from self._again(packet)
            return
        if psn_class is PsnClass.GAP:
            self._order.forget()
            self._missing.update(forward(end, i) for i in range(min(after(packet.psn, end), 1 << 16)))
            if self._half.has_all_requests:
                yield f"PSN {packet.psn} is new, but the next new one is {end}: skipped PSNs: {after(packet.psn, end)}"
        elif wrong := self._repeats.sent_new(packet.psn):
            yield f"{packet.opcode.name}, PSN {packet.psn}, {wrong}"
        self._keep(packet)
        if wrong := self._order.wrong(packet):
            yield f"{packet.opcode.name}, PSN {packet.psn}, {wrong}"

    def _keep(self, packet: Packet) -> None:
        self._sent[packet.psn] = packet
        if packet.kind is Kind.READ:
            self._reads.add(packet)

    def _again(self, packet: Packet) -> Iterator[str]:
        earlier = self._sent.get(packet.psn)
        if earlier is None and packet.kind is Kind.READ:
            place, _, earlier = next(self._reads.covering(packet.psn), (0, 0, None))
        else:
            place = 0
        if earlier is None:
            if packet.psn not in self._missing and not self._sequence.is_before_all(packet.psn):
                yield f"PSN {packet.psn} is sent again as {packet.opcode.name}, but no request began at this PSN before"
            self._missing.discard(packet.psn)
            self._keep(packet)
            earlier = packet
        if earlier.is_intact and (wrong := _difference(packet, earlier, place * self._half.mtu)):
            yield f"PSN {packet.psn} is sent again with another {wrong} than in frame {earlier.frame}"
        if wrong := self._repeats.sent_again(earlier.psn, self._sequence.count_of(earlier)):
            yield f"{packet.opcode.name}, PSN {packet.psn}, {wrong}"

    def answer(self, packet: Packet) -> None:
        if self._sequence.first is None or not self._sequence.has(packet.psn):
            return
        if packet.kind is Kind.RESPONSE:  # the responder has executed the READ
            for place, count, _ in self._reads.covering(packet.psn):
                self._repeats.acknowledge(forward(packet.psn, count - place))
                return
        elif packet.aeth.is_positive:
            self._repeats.acknowledge(forward(packet.psn, 1))
        elif packet.aeth.is_sequence_error or packet.aeth.is_not_ready:
            self._repeats.refuse(packet)


def _difference(packet: Packet, earlier: Packet, offset: int) -> str:
    """What differs between two packets of one PSN; a READ may ask for its end alone, from this offset on."""
    if packet.code != earlier.code:
        return f"opcode ({packet.opcode.name})"
    if packet.kind is Kind.READ:
        is_part = (packet.reth.key == earlier.reth.key and packet.reth.address == earlier.reth.address + offset
                   and packet.reth.bytes <= earlier.reth.bytes - offset)
        return "" if is_part else "range of memory"
    if len(packet.payload) != len(earlier.payload):
        return f"length ({len(packet.payload)} bytes)"
    if packet.payload != earlier.payload:
        return "payload"
    return "header" if (packet.reth, packet.other) != (earlier.reth, earlier.other) else ""


def check_go_back_n(half: Half) -> Iterator[Violation]:
    requester = _Requester(half)
    for packet in half.packets:
        if packet.kind in REQUESTS:
            for text in requester.request(packet):
                yield Violation(packet.frame, "go_back_n", text)
        elif packet.is_intact:
            requester.answer(packet)
