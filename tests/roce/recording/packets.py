"""RoCEv2 packets in Ethernet frames.

Sources: InfiniBand Architecture Specification 1.4, volume 1: headers 9.2 to 9.3.5, opcodes 9.2.1 (table 38), ICRC
7.8.1; annex A17 (RoCEv2).
"""

import ipaddress
import struct
import zlib
from dataclasses import dataclass
from enum import Enum

UDP_PORT = 4791
ICRC_BYTES = 4
CONGESTED = 3  # of ECN (RFC 3168)
PSN_COUNT = 1 << 24

_TYPE_IPV4 = 0x0800
_TYPE_IPV6 = 0x86dd
_TAGS = (0x8100, 0x88a8)
_PROTOCOL_UDP = 17
_BTH = struct.Struct("!BBHII")
_ONES = b"\xff"


class Malformed(Exception):
    """A packet to RoCE's port whose headers do not fit together."""


class Kind(Enum):
    SEND = "SEND"
    WRITE = "WRITE"
    READ = "READ"
    RESPONSE = "READ response"
    ACKNOWLEDGE = "acknowledgement"
    CONGESTION = "congestion notification"
    ATOMIC = "ATOMIC"
    OTHER = "other"


REQUESTS = frozenset({Kind.SEND, Kind.WRITE, Kind.READ, Kind.ATOMIC})
ANSWERS = frozenset({Kind.RESPONSE, Kind.ACKNOWLEDGE})


@dataclass(frozen=True, slots=True)
class Opcode:
    name: str
    kind: Kind
    starts: bool = True  # first or only packet of its message
    ends: bool = True  # last or only packet of its message
    has_reth: bool = False
    has_aeth: bool = False
    other_bytes: int = 0  # of further headers: immediate data, operands of atomic operations


_RC = {
    0x00: Opcode("SEND first", Kind.SEND, ends=False),
    0x01: Opcode("SEND middle", Kind.SEND, starts=False, ends=False),
    0x02: Opcode("SEND last", Kind.SEND, starts=False),
    0x03: Opcode("SEND last with immediate", Kind.SEND, starts=False, other_bytes=4),
    0x04: Opcode("SEND only", Kind.SEND),
    0x05: Opcode("SEND only with immediate", Kind.SEND, other_bytes=4),
    0x06: Opcode("WRITE first", Kind.WRITE, ends=False, has_reth=True),
    0x07: Opcode("WRITE middle", Kind.WRITE, starts=False, ends=False),
    0x08: Opcode("WRITE last", Kind.WRITE, starts=False),
    0x09: Opcode("WRITE last with immediate", Kind.WRITE, starts=False, other_bytes=4),
    0x0a: Opcode("WRITE only", Kind.WRITE, has_reth=True),
    0x0b: Opcode("WRITE only with immediate", Kind.WRITE, has_reth=True, other_bytes=4),
    0x0c: Opcode("READ request", Kind.READ, has_reth=True),
    0x0d: Opcode("READ response first", Kind.RESPONSE, ends=False, has_aeth=True),
    0x0e: Opcode("READ response middle", Kind.RESPONSE, starts=False, ends=False),
    0x0f: Opcode("READ response last", Kind.RESPONSE, starts=False, has_aeth=True),
    0x10: Opcode("READ response only", Kind.RESPONSE, has_aeth=True),
    0x11: Opcode("acknowledgement", Kind.ACKNOWLEDGE, has_aeth=True),
    0x12: Opcode("ATOMIC acknowledgement", Kind.ACKNOWLEDGE, has_aeth=True, other_bytes=8),
    0x13: Opcode("compare and swap", Kind.ATOMIC, other_bytes=28),
    0x14: Opcode("fetch and add", Kind.ATOMIC, other_bytes=28),
    0x16: Opcode("SEND last with invalidate", Kind.SEND, starts=False, other_bytes=4),
    0x17: Opcode("SEND only with invalidate", Kind.SEND, other_bytes=4),
    0x81: Opcode("congestion notification", Kind.CONGESTION),
}
_OTHER = Opcode("operation of another service", Kind.OTHER)  # than reliable connections


@dataclass(frozen=True, slots=True)
class Reth:
    address: int
    key: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Aeth:
    syndrome: int
    messages: int  # MSN

    @property
    def is_positive(self) -> bool:
        return self.syndrome >> 5 & 3 == 0

    @property
    def is_not_ready(self) -> bool:
        return self.syndrome >> 5 & 3 == 1

    @property
    def is_sequence_error(self) -> bool:
        return self.syndrome & 0x7f == 0x60

    @property
    def is_refusal(self) -> bool:
        return self.syndrome >> 5 & 3 == 3


@dataclass(slots=True)
class Packet:
    frame: int  # the frame's number
    time: int  # nanoseconds
    source: str
    target: str
    is_congested: bool  # marked by ECN
    code: int  # the opcode's number
    opcode: Opcode
    flags: int  # the BTH's second byte: solicited, migration, padding, version
    backward: bool  # BECN
    pair: int  # the queue pair that receives it
    asks_for_ack: bool
    psn: int
    reth: Reth | None
    aeth: Aeth | None
    other: bytes  # further headers
    payload: bytes
    icrc: int  # as the packet has it
    right_icrc: int

    @property
    def kind(self) -> Kind:
        return self.opcode.kind

    @property
    def is_intact(self) -> bool:
        return self.icrc == self.right_icrc


def after(one: int, other: int) -> int:
    """How far a PSN or MSN is after another: -2^23 to 2^23 - 1 (section 9.7.2)."""
    return ((one - other + PSN_COUNT // 2) & (PSN_COUNT - 1)) - PSN_COUNT // 2


def forward(psn: int, packets: int) -> int:
    return (psn + packets) & (PSN_COUNT - 1)


def packets_of(length: int, mtu: int) -> int:
    """Packets that carry so many bytes, at least one."""
    return max(1, -(-length // mtu))


def icrc_of(content: bytes, network: int, udp: int, end: int) -> int:
    """The ICRC of a packet. Its IP and UDP headers begin at these offsets, and the ICRC is at `end`."""
    ip = bytearray(content[network:udp + 8])
    if ip[0] >> 4 == 4:
        masked = (1, 8, 10, 11)  # type of service, time to live, checksum
    else:
        ip[0] |= 0x0f  # traffic class, flow label, hop limit
        masked = (1, 2, 3, 7)
    for place in (*masked, len(ip) - 2, len(ip) - 1):  # and the checksum of UDP
        ip[place] = 0xff
    crc = zlib.crc32(ip, zlib.crc32(_ONES * 8))
    crc = zlib.crc32(content[udp + 8:udp + 12], crc)
    crc = zlib.crc32(_ONES, crc)  # FECN, BECN and reserved bits
    return zlib.crc32(content[udp + 13:end], crc)


def _network(content: bytes) -> tuple[int, int, int] | None:
    """Offsets: where IP begins, where UDP begins, and where the packet ends. None: the frame is not UDP."""
    at = 12
    while len(content) >= at + 4 and int.from_bytes(content[at:at + 2]) in _TAGS:
        at += 4
    ether_type = int.from_bytes(content[at:at + 2])
    at += 2
    if ether_type == _TYPE_IPV4 and len(content) >= at + 20 and content[at + 9] == _PROTOCOL_UDP:
        header = (content[at] & 0x0f) * 4
        is_fragment = int.from_bytes(content[at + 6:at + 8]) & 0x3fff != 0
        return None if is_fragment else (at, at + header, at + int.from_bytes(content[at + 2:at + 4]))
    if ether_type == _TYPE_IPV6 and len(content) >= at + 40 and content[at + 6] == _PROTOCOL_UDP:
        return at, at + 40, at + 40 + int.from_bytes(content[at + 4:at + 6])
    return None


def _addresses(content: bytes, network: int) -> tuple[str, str, int]:
    """Source, target and ECN."""
    if content[network] >> 4 == 4:
        places, congestion = (network + 12, network + 16, network + 20), content[network + 1] & 3
    else:
        places, congestion = (network + 8, network + 24, network + 40), content[network + 1] >> 4 & 3
    source, target = (ipaddress.ip_address(content[begin:end]) for begin, end in zip(places, places[1:]))
    return str(source), str(target), congestion


def is_roce(content: bytes) -> bool:
    found = _network(content)
    return found is not None and content[found[1] + 2:found[1] + 4] == UDP_PORT.to_bytes(2)


def read_packet(number: int, time: int, content: bytes) -> Packet:
    """The packet in a frame for which is_roce() is true. Raises Malformed."""
    network, udp, end = _network(content)
    at = udp + 8
    if end > len(content) or int.from_bytes(content[udp + 4:udp + 6]) != end - udp:
        raise Malformed(f"the lengths of IP, UDP and the frame do not fit: IP ends at byte {end} of {len(content)}")
    if end < at + _BTH.size + ICRC_BYTES:
        raise Malformed(f"{end - at} bytes after the UDP header are too few for the BTH and the ICRC")
    code, flags, _, pair, psn = _BTH.unpack_from(content, at)
    if flags & 0x0f != 0:
        raise Malformed(f"transport header version {flags & 0x0f} in the BTH is unknown (known: 0)")
    opcode = _RC.get(code, _OTHER)
    if opcode is _OTHER and code >> 5 == 0:
        raise Malformed(f"opcode {code:#04x} is reserved")
    at += _BTH.size
    source, target, congestion = _addresses(content, network)
    reth = aeth = None
    extensions = 16 * opcode.has_reth + 4 * opcode.has_aeth + opcode.other_bytes
    padding = flags >> 4 & 3
    if (end - at) % 4 != 0 or end < at + extensions + padding + ICRC_BYTES:
        raise Malformed(f"{end - at} bytes are too few for the headers of {opcode.name}, or no multiple of 4")
    if opcode.has_reth:
        reth = Reth(*struct.unpack_from("!QII", content, at))
        at += 16
    if opcode.has_aeth:
        aeth = Aeth(content[at], int.from_bytes(content[at + 1:at + 4]))
        at += 4
    payload = content[at + opcode.other_bytes:end - ICRC_BYTES - padding]
    if payload and opcode.kind in (Kind.READ, Kind.ACKNOWLEDGE, Kind.ATOMIC):
        raise Malformed(f"{opcode.name} with {len(payload)} bytes of payload")
    return Packet(
        frame=number, time=time, source=source, target=target, is_congested=congestion == CONGESTED, code=code,
        opcode=opcode, flags=flags, backward=bool(pair >> 30 & 1), pair=pair & (PSN_COUNT - 1),
        asks_for_ack=bool(psn >> 31), psn=psn & (PSN_COUNT - 1), reth=reth, aeth=aeth,
        other=content[at:at + opcode.other_bytes], payload=payload,
        icrc=int.from_bytes(content[end - ICRC_BYTES:end], "little"),
        right_icrc=icrc_of(content, network, udp, end - ICRC_BYTES))
