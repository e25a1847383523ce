"""Finds the READ request of a READ response."""

from collections.abc import Iterator

from .packets import Packet, after, packets_of

# Enough to find a READ, because a responder answers few at a time and a requester repeats only recent ones.
_MOST = 4096


class Reads:
    def __init__(self, mtu: int):
        self._mtu = mtu
        self._all: list[tuple[int, Packet]] = []  # with the number of packets of the answer

    def add(self, request: Packet) -> None:
        self._all.append((packets_of(request.reth.bytes, self._mtu), request))

    def covering(self, psn: int) -> Iterator[tuple[int, int, Packet]]:
        """Requests whose answer has this PSN, the last one first: the index in the answer, its packets, the request."""
        for count, request in reversed(self._all[-_MOST:]):
            place = after(psn, request.psn)
            if 0 <= place < count:
                yield place, count, request
