"""Ethernet frames from files of recorders (pcap, pcapng)."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

_ETHERNET = 1
_SECOND = 1_000_000_000


class Unreadable(Exception):
    """A file that cannot be read: its name, the reason and the remedy."""


@dataclass(slots=True)
class Frame:
    number: int  # in the file, from 1 on, as Wireshark counts
    time: int  # nanoseconds
    content: bytes
    is_whole: bool = True  # False: the recorder kept only its beginning


def _time_of(metadata, is_nano: bool) -> int:
    if not hasattr(metadata, "tsresol"):  # pcap
        return metadata.sec * _SECOND + metadata.usec * (1 if is_nano else 1000)
    if metadata.tshigh is None:  # a simple block of pcapng has no time
        return 0
    return ((metadata.tshigh << 32) + metadata.tslow) * _SECOND // metadata.tsresol


def frames(path: str) -> Iterator[Frame]:
    """Raises Unreadable, possibly after some frames."""
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapReader
    try:
        with contextlib.closing(RawPcapReader(path)) as reader:
            is_nano = getattr(reader, "nano", False)
            for number, (content, metadata) in enumerate(reader, 1):
                link = getattr(metadata, "linktype", None) or getattr(reader, "linktype", None)
                if link != _ETHERNET:
                    raise Unreadable(f"{path}: frame {number} has link type {link} and not Ethernet (1): record one "
                                     "interface (tcpdump -i eth1), not \"any\"")
                if len(content) < getattr(metadata, "caplen", 0):
                    raise Unreadable(f"{path}: the file ends inside frame {number}: stop the recorder with SIGINT, "
                                     f"or cut the file (editcap -r {path} FILE 1-{number - 1})")
                yield Frame(number, _time_of(metadata, is_nano), content, len(content) == metadata.wirelen)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}: name a file that can be read") from None
    except Scapy_Exception as error:
        reason = str(error).rstrip("!")
        raise Unreadable(f"{path}: {reason}: record with tcpdump -w, or convert with editcap -F pcapng") from None
