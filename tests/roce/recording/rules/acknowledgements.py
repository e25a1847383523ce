"""Acknowledgements name PSNs that were sent, and their message sequence number (MSN) counts completed messages.

A responder counts a SEND, WRITE or ATOMIC when it has executed it, and a READ at any time from its request to the last
packet of its answer. A recording may begin after the connection, so the number of messages before it is not known. Each
MSN gives a range of possible numbers, and all ranges must have a number in common.

Source: InfiniBand Architecture Specification 1.4, volume 1, section 9.7.5 (acknowledgements), 9.7.7.1 and C9-148 (MSN).
"""

from bisect import bisect_right
from collections.abc import Iterator

from ..connections import Half, PsnClass, Sequence, Violation
from ..packets import REQUESTS, Kind, Packet, after


class _Messages:
    """Where the messages end that were sent. PSNs and MSNs do not wrap around here."""

    def __init__(self, mtu: int):
        self.sequence = Sequence(mtu)
        self._end = 0  # of the sequence
        self._ends: list[int] = []  # after the last PSN of each message
        self.least = self.most = 0  # what the MSN can have been before all of them
        self.msn = 0
        self.seen = False

    def sent(self, packet: Packet) -> None:
        psn_class = self.sequence.take(packet)
        if psn_class is PsnClass.AGAIN:
            return
        self._end += self.sequence.count_of(packet)
        if psn_class is PsnClass.GAP:  # messages are missing in the recording
            self._end += 1
            self.seen = False
        if packet.opcode.ends:
            self._ends.append(self._end)

    def knows(self, psn: int) -> bool:
        """Whether this PSN is in the recording."""
        return self.sequence.first is not None and self.sequence.has(psn) and not self.sequence.is_before_all(psn)

    def completed_before(self, psn: int) -> int:
        return bisect_right(self._ends, self._end + after(psn, self.sequence.end))

    def wrong_count(self, packet: Packet) -> str:
        """What is wrong with a packet's MSN; empty: nothing."""
        msn = packet.aeth.messages if not self.seen else self.msn + after(packet.aeth.messages, self.msn)
        if self.seen and msn < self.msn:
            return f"the MSN {packet.aeth.messages} is {self.msn - msn} less than before"
        done_before = packet.psn if not packet.aeth.is_positive else packet.psn + 1
        least, most = msn - len(self._ends), msn - self.completed_before(done_before)
        before = (self.least, self.most)
        if not self.seen:
            self.seen, self.least, self.most = True, least, most
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)
        self.msn = msn
        if self.least <= self.most:
            return ""
        self.least, self.most = least, most
        too_many = least > before[1]
        off = least - before[1] if too_many else before[0] - most
        return f"the MSN {packet.aeth.messages} is {off} too {'high' if too_many else 'low'} for the completed messages"


def check_acknowledgements(half: Half) -> Iterator[Violation]:
    messages = _Messages(half.mtu)
    for packet in half.packets:
        if packet.kind in REQUESTS:
            if packet.is_intact or packet.psn == messages.sequence.end:
                messages.sent(packet)
            continue
        if not packet.is_intact:
            continue
        if packet.kind is Kind.ACKNOWLEDGE and not messages.sequence.has(packet.psn):
            yield Violation(packet.frame, "acknowledgements", f"an acknowledgement for PSN {packet.psn}, which was not "
                            f"sent: the next new PSN is {messages.sequence.end}")
            continue
        if packet.aeth is not None and messages.knows(packet.psn) and (wrong := messages.wrong_count(packet)):
            yield Violation(packet.frame, "acknowledgements", wrong)
