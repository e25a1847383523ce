"""A conversation of two ends without violations, for tests of the rules: tests change it, and the rules must notice."""

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .files import Frame
from .packets import UDP_PORT, Aeth, Reth, icrc_of

MTU = 1024
_STEP = 10_000  # nanoseconds between two packets

_ACK, _NAK = 0x1f, 0x60
_SEND_ONLY, _WRITE_FIRST, _WRITE_MIDDLE, _WRITE_LAST = 0x04, 0x06, 0x07, 0x08
_READ, _READ_FIRST, _READ_MIDDLE, _READ_LAST, _ACKNOWLEDGE, _CONGESTION = 0x0c, 0x0d, 0x0e, 0x0f, 0x11, 0x81


@dataclass(frozen=True)
class Written:
    """A packet to be written."""
    name: str  # for tests to find it
    from_first: bool  # by the first end, which has all requests
    code: int
    psn: int
    payload: bytes = b""
    reth: Reth | None = None
    aeth: Aeth | None = None
    congested: bool = False
    backward: bool = False
    time: int = 0  # in steps after the packet before it


def frame_of(packet: Written, ipv6: bool = False, vlan: bool = False) -> bytes:
    """With the right ICRC."""
    headers = b""
    if packet.reth is not None:
        headers += struct.pack("!QII", packet.reth.address, packet.reth.key, packet.reth.bytes)
    if packet.aeth is not None:
        headers += bytes([packet.aeth.syndrome]) + packet.aeth.messages.to_bytes(3)
    padding = -len(packet.payload) % 4
    pair = (0x12 if packet.from_first else 0x11) | packet.backward << 30
    body = struct.pack("!BBHII", packet.code, padding << 4, 0xffff, pair, packet.psn) + headers
    body += packet.payload + bytes(padding)
    udp = struct.pack("!HHHH", 0xc000, UDP_PORT, 8 + len(body) + 4, 0)
    names = ("fd00::1", "fd00::2") if ipv6 else ("10.9.0.1", "10.9.0.2")
    source, target = (ipaddress.ip_address(name).packed for name in (names if packet.from_first else names[::-1]))
    length = len(udp) + len(body) + 4
    ecn = 3 if packet.congested else 2
    if ipv6:
        ip = struct.pack("!IHBB", 6 << 28 | ecn << 20, length, 17, 64) + source + target
    else:
        ip = struct.pack("!BBHHHBBH", 0x45, ecn, 20 + length, 0, 0x4000, 64, 17, 0) + source + target
    ethernet = bytes(12) + (b"\x81\x00\x00\x07" if vlan else b"") + (b"\x86\xdd" if ipv6 else b"\x08\x00")
    content = ethernet + ip + udp + body
    network = len(ethernet)
    return content + icrc_of(content, network, network + len(ip), len(content)).to_bytes(4, "little")


def frames_of(packets: Iterable[Written], **form) -> list[Frame]:
    frames, time = [], 0
    for number, packet in enumerate(packets, 1):
        time += _STEP * (1 + packet.time)
        frames.append(Frame(number, time, frame_of(packet, **form)))
    return frames


def _bytes(seed: int, length: int) -> bytes:
    return bytes((seed + i) % 251 for i in range(length))


def _acknowledgement(name: str, psn: int, messages: int, syndrome: int = _ACK) -> Written:
    return Written(name, False, _ACKNOWLEDGE, psn, aeth=Aeth(syndrome, messages))


def conversation() -> list[Written]:
    """A WRITE, a SEND, a READ that is asked again from its middle, and SENDs of which one is lost. PSNs begin again."""
    base = (1 << 24) - 3
    psn = [(base + i) % (1 << 24) for i in range(12)]
    write = [
        Written("write first", True, _WRITE_FIRST, psn[0], _bytes(1, MTU), Reth(0x1000, 7, 2 * MTU + 5)),
        Written("write middle", True, _WRITE_MIDDLE, psn[1], _bytes(2, MTU)),
        Written("write last", True, _WRITE_LAST, psn[2], _bytes(3, 5)),
        _acknowledgement("write acknowledged", psn[2], 1),
        Written("send", True, _SEND_ONLY, psn[3], _bytes(4, 40)),
        _acknowledgement("send acknowledged", psn[3], 2),
    ]
    read = [
        Written("read", True, _READ, psn[4], reth=Reth(0x9000, 8, 2 * MTU + 100)),
        Written("response first", False, _READ_FIRST, psn[4], _bytes(5, MTU), aeth=Aeth(_ACK, 3)),
        Written("response middle", False, _READ_MIDDLE, psn[5], _bytes(6, MTU)),
        Written("response last", False, _READ_LAST, psn[6], _bytes(7, 100), aeth=Aeth(_ACK, 3)),
        Written("read again", True, _READ, psn[5], reth=Reth(0x9000 + MTU, 8, MTU + 100)),
        Written("again first", False, _READ_FIRST, psn[5], _bytes(6, MTU), aeth=Aeth(_ACK, 3)),
        Written("again last", False, _READ_LAST, psn[6], _bytes(7, 100), aeth=Aeth(_ACK, 3)),
    ]
    lost = [Written(f"send {i}", True, _SEND_ONLY, psn[7 + i], _bytes(8 + i, 40), congested=i == 2) for i in range(3)]
    repair = [
        Written("notice", False, _CONGESTION, 0, bytes(16), backward=True),
        _acknowledgement("nak", psn[7], 3, _NAK),
        *(Written(f"send {i} again", True, _SEND_ONLY, psn[7 + i], _bytes(8 + i, 40)) for i in range(3)),
        Written("send 3", True, _SEND_ONLY, psn[10], _bytes(11, 40)),
        Written("probe", True, _SEND_ONLY, psn[10], _bytes(11, 40)),
        _acknowledgement("all acknowledged", psn[10], 7),
        Written("second notice", False, _CONGESTION, 0, bytes(16), backward=True, time=10),
    ]
    return [*write, *read, *lost, *repair]
