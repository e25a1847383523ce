"""Congestion notification packets (CNPs): their form, their cause and their spacing.

The cause is a packet of the other end that arrived with the mark of congestion (ECN). A recording at the sender of such
packets does not show the marks. Options.recorded_at is then that sender's address, and the rule requires no cause for
CNPs of the other end.

Source: annex A17.9.3 (form), A17.9.2 (cause); the spacing is each implementation's own.
"""

from collections.abc import Iterator

from ..connections import Connection, Options, Violation
from ..packets import Kind, Packet

_BODY = bytes(16)
_SOLICITED = 0x80


def _wrong_form(packet: Packet) -> str:
    if packet.payload != _BODY:
        return f"its body is {packet.payload.hex() or 'empty'} and not 16 bytes of zeros"
    if not packet.backward:
        return "BECN is not set"
    if packet.psn != 0 or packet.asks_for_ack or packet.flags & _SOLICITED:
        return "PSN, AckReq and SE are not all zero"
    return ""


def check_cnp(connection: Connection, options: Options) -> Iterator[Violation]:
    was_marked = [False, False]  # any packet, by flow
    last: list[int | None] = [None, None]
    for side, packet in connection.packets():
        was_marked[side] |= packet.is_congested
        if packet.kind is not Kind.CONGESTION or not packet.is_intact:
            continue
        if wrong := _wrong_form(packet):
            yield Violation(packet.frame, "cnp", f"a congestion notification of wrong form: {wrong}")
        shows_causes = options.recorded_at in ("", packet.source)
        if shows_causes and not was_marked[1 - side]:
            yield Violation(packet.frame, "cnp", f"a congestion notification to {packet.target}, but no packet from "
                            "there was marked (ECN) before")
        if last[side] is not None and packet.time - last[side] < options.notice_spacing:
            yield Violation(packet.frame, "cnp", f"a congestion notification {(packet.time - last[side]) / 1000} us "
                            f"after the last one: at least {options.notice_spacing / 1000} us must be between them")
        last[side] = packet.time
