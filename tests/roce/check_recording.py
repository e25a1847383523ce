#!/usr/bin/python3
"""Checks recorded packets of any RoCEv2 implementation against the rules that a recording can show.

FILE is a pcap or pcapng file with whole Ethernet frames of one interface. Packets are IPv4 or IPv6, with or without a
VLAN tag. For example:

  tcpdump -i eth1 -s 0 -B 65536 -w run.pcap udp port 4791
  check_recording.py run.pcap --recorded-at 10.9.0.1

Start the recorder before the connections begin, and stop it with SIGINT. It must report that it dropped no packet,
because the checks assume that packets that are not recorded were never sent. If the recorder ran at one end, name that
end with --recorded-at, because packets of the other end may be lost before the recorder. Without the option, each
skipped PSN is a violation. Record one run at a time if queue pairs get the same numbers again.

rules (docs/roce.md has what each one finds):
  form              the headers and lengths of a packet fit together
  icrc              the ICRC of a packet is right
  go_back_n         PSNs of new requests are consecutive, and repeated packets equal the first ones
  read              each READ response fits a READ request
  acknowledgements  each acknowledgement has a PSN that was sent and a right message sequence number (MSN)
  cnp               congestion notification packets (CNPs) have the right form, cause and spacing

The output has a line for each connection, a line for each violation, and a line of totals. A violation names the frame
by its number in the file, as Wireshark does.

status: 0: no violations; 1: violations; 2: nothing was checked, because of the file, an option or a missing package
"""

import argparse
import importlib.util
import ipaddress
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from recording.connections import Options  # noqa: E402
from recording.files import Unreadable, frames  # noqa: E402
from recording.report import RULES, End, Report, check  # noqa: E402

MTUS = (256, 512, 1024, 2048, 4096)


def text_of(end: End) -> str:
    pair = "qp unknown" if end.pair is None else f"qp {end.pair:#08x}"
    return (f"{end.address} {pair}: packets={end.packets} bytes={end.bytes} messages={end.messages} reads={end.reads} "
            f"again={end.again} responses={end.responses} naks={end.naks} not_ready={end.not_ready} "
            f"notices={end.notices} marked={end.marked}")


def print_lines(report: Report) -> None:
    for number, mtu, one, other in report.connections:
        print(f"connection {number}: mtu={mtu}; {text_of(one)}; {text_of(other)}")
    for violation in report.violations:
        where = f" connection {violation.connection}:" if violation.connection else ""
        print(f"frame {violation.frame}: {violation.rule}:{where} {violation.text}")
    ends = [end for _, _, *both in report.connections for end in both]
    print(f"frames={report.frames} packets={report.packets} others={report.others} "
          f"connections={len(report.connections)} messages={sum(end.messages for end in ends)} "
          f"reads={sum(end.reads for end in ends)} again={sum(end.again for end in ends)} "
          f"naks={sum(end.naks for end in ends)} violations={len(report.violations)}")


def address(text: str) -> str:
    """The address as the report writes it."""
    return str(ipaddress.ip_address(text))


def nothing_checked(report: Report, recorded_at: str) -> str:
    """Why the checks say nothing; empty: they do."""
    if report.packets == 0:
        return f"{report.frames} frames and no packet of RoCEv2: is it the right interface and filter (udp port 4791)?"
    addresses = {end.address for _, _, *both in report.connections for end in both}
    if recorded_at and addresses and recorded_at not in addresses:
        return f"--recorded-at {recorded_at}: no connection has this end; there are {', '.join(sorted(addresses))}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--recorded-at", metavar="ADDRESS", type=address,
                        help="IP address of the end at which the recorder ran [none: no packet was lost before it]")
    parser.add_argument("--notice-spacing-us", type=float, default=0, metavar="N",
                        help="least time between CNPs to one sender in microseconds, 50 for Tally [0: any]")
    parser.add_argument("--mtu", type=int, default=0, choices=MTUS,
                        help="path MTU in bytes, for connections without first and middle packets [by their payload]")
    parser.add_argument("--rule", action="append", choices=RULES,
                        help="check only this rule; may be given several times [all]")
    arguments = parser.parse_args()
    if importlib.util.find_spec("scapy") is None:
        parser.error(f"{sys.executable} has no scapy: run tools/setup --dev, and start this script with "
                     "/usr/bin/python3")
    options = Options(arguments.mtu, arguments.recorded_at or "", int(arguments.notice_spacing_us * 1000))
    try:
        report = check(frames(arguments.file), arguments.file, options, tuple(arguments.rule or RULES))
    except Unreadable as error:
        print(f"check_recording: {error}", file=sys.stderr)
        return 2
    if why := nothing_checked(report, options.recorded_at):
        print(f"check_recording: {arguments.file}: {why}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        print_lines(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
