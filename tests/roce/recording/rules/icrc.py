"""Each packet has the right ICRC.

Source: InfiniBand Architecture Specification 1.4, volume 1, section 7.8.1; annex A17.3.3.
"""

from collections.abc import Iterable, Iterator

from ..connections import Violation
from ..packets import Packet


def check_icrc(packets: Iterable[Packet]) -> Iterator[Violation]:
    for packet in packets:
        if not packet.is_intact:
            yield Violation(packet.frame, "icrc", f"the ICRC is {packet.icrc:#010x} and must be "
                            f"{packet.right_icrc:#010x}")
