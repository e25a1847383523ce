#!/usr/bin/python3
"""Each rule finds its violations, and nothing else."""

import sys
import unittest
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from recording.connections import Options  # noqa: E402
from recording.conversation import MTU, Written, conversation, frames_of  # noqa: E402
from recording.files import Frame  # noqa: E402
from recording.packets import Aeth, Reth, after, read_packet  # noqa: E402
from recording.report import Report, check  # noqa: E402

SPACING = 50_000  # nanoseconds


def changed(name: str, **fields) -> list[Written]:
    packets = conversation()
    at = place_of(name)
    packets[at] = replace(packets[at], **fields)
    return packets


def place_of(name: str) -> int:
    return next(place for place, packet in enumerate(conversation()) if packet.name == name)


def psn_of(name: str) -> int:
    return conversation()[place_of(name)].psn


def without(*names: str) -> list[Written]:
    return [packet for packet in conversation() if packet.name not in names]


def moved(name: str, behind: str) -> list[Written]:
    packets = without(name)
    place = next(place for place, packet in enumerate(packets) if packet.name == behind)
    return [*packets[:place + 1], conversation()[place_of(name)], *packets[place + 1:]]


def checked(frames: list[Frame], **options) -> Report:
    return check(iter(frames), "test", Options(notice_spacing=SPACING, **options))


class Rules(unittest.TestCase):
    def expect(self, packets: list[Written], rule: str, words: str, frame: str = "", **options) -> None:
        """Exactly one violation. frame: the name of the packet that it names."""
        report = checked(frames_of(packets), **options)
        found = [(one.rule, one.text) for one in report.violations]
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0][0], rule)
        self.assertIn(words, found[0][1])
        if frame:
            self.assertEqual(packets[report.violations[0].frame - 1].name, frame)

    def expect_none(self, packets: list[Written], **options) -> None:
        self.assertEqual(checked(frames_of(packets), **options).violations, [])

    def test_a_right_conversation_has_no_violation(self):
        for form in ({}, {"ipv6": True}, {"vlan": True}, {"ipv6": True, "vlan": True}):
            report = checked(frames_of(conversation(), **form))
            self.assertEqual(report.violations, [])
            (_, mtu, one, other), = report.connections
            self.assertEqual((mtu, one.pair, other.pair), (MTU, 0x11, 0x12))
            self.assertEqual((one.messages, one.reads, one.again), (7, 1, 5))
            self.assertEqual((other.naks, other.notices, other.responses), (1, 2, 5))

    def test_a_recording_that_begins_late_has_no_violation(self):
        for first in range(1, len(conversation())):
            report = checked(frames_of(conversation()[first:]))
            self.assertEqual([one for one in report.violations if one.rule != "cnp"], [], first)

    def test_icrc(self):
        frames = frames_of(conversation())
        for name in ("write middle", "response middle", "all acknowledged", "notice"):
            frame = frames[place_of(name)]
            for at in (-1, -5):
                content = bytearray(frame.content)
                content[at] ^= 1
                damaged = [*frames]
                damaged[place_of(name)] = replace(frame, content=bytes(content))
                found = [(one.rule, one.frame) for one in checked(damaged).violations]
                self.assertEqual(found, [("icrc", frame.number)])

    def test_routers_change_no_icrc(self):
        """Type of service, time to live, checksums; traffic class, flow label, hop limit; FECN."""
        for ipv6, places in ((False, (15, 22, 24, 25, 40, 41, 46)), (True, (14, 15, 16, 17, 21, 60, 61, 66))):
            frame = frames_of(conversation()[:1], ipv6=ipv6)[0]
            for place in range(14, len(frame.content)):
                content = bytearray(frame.content)
                content[place] ^= 0x01
                if place in places:
                    self.assertEqual(checked([replace(frame, content=bytes(content))]).violations, [], place)
                elif (found := checked([replace(frame, content=bytes(content))])).packets == 1:  # else no RoCE any more
                    self.assertEqual(len(found.violations), 1, place)

    def test_form(self):
        frames = frames_of(conversation())
        for at, value, words in ((42, 0x1f, "reserved"), (43, 0x41, "version"), (39, 9, "lengths")):
            content = bytearray(frames[-1].content)
            content[at] = value
            found = checked([*frames[:-1], replace(frames[-1], content=bytes(content))]).violations
            self.assertEqual([one.rule for one in found], ["form"])
            self.assertIn(words, found[0].text)

    def test_a_new_request_packet_is_missing(self):
        self.expect(without("write middle"), "go_back_n", "skipped PSNs: 1", "write last")
        self.expect(without("send", "send acknowledged"), "go_back_n", "skipped PSNs: 1", "read")
        self.expect_none(without("write middle"), recorded_at="10.9.0.2")
        self.expect(without("write middle"), "go_back_n", "skipped PSNs: 1", recorded_at="10.9.0.1")

    def test_what_is_sent_again_is_another_packet(self):
        self.expect(changed("probe", payload=bytes(40)), "go_back_n", "another payload", "probe")
        self.expect(changed("probe", payload=bytes(36)), "go_back_n", "another length", "probe")
        self.expect(changed("probe", code=0), "go_back_n", "another opcode", "probe")
        for reth in (Reth(0x9000, 8, MTU), Reth(0x9000 + MTU, 8, MTU + 101), Reth(0x9000 + MTU, 9, MTU)):
            packets = changed("read again", reth=reth)
            for name in ("again first", "again last"):
                packets = [one for one in packets if one.name != name]
            self.expect(packets, "go_back_n", "another range of memory", "read again")
        self.expect(changed("probe", psn=psn_of("response last")), "go_back_n", "no request began at this PSN")

    def test_packets_have_their_order_in_messages(self):
        first = changed("write middle", code=0x04)
        self.expect([one for one in first if one.name != "write last" and one.name != "write acknowledged"][:2],
                    "go_back_n", "begins before the message of frame 1 has ended")
        self.expect(changed("send", code=0x02), "go_back_n", "has not begun", "send")
        self.expect(changed("write last", payload=bytes(6)), "go_back_n", "leaves -1 bytes", "write last")
        self.expect(changed("write middle", payload=bytes(MTU - 4)), "go_back_n", "the MTU is 1024")

    def test_a_requester_leaves_out_what_a_nak_asks_for(self):
        self.expect(without("send 1 again"), "go_back_n", f"PSN {psn_of('send 1')} was not sent again", "send 3")
        self.expect(without("send 2 again"), "go_back_n", f"PSN {psn_of('send 2')} was not sent again", "send 3")
        self.expect(without("send 0 again"), "go_back_n", f"continues after PSN {psn_of('send 0')}", "send 2 again")

    def test_a_nak_need_not_have_arrived(self):
        self.expect_none(without("send 0 again", "send 1 again", "send 2 again"))
        self.expect_none(moved("nak", behind="send 2 again"))
        # A probe of the last packet alone, and a timeout that goes back further.
        self.expect_none(without("send 0 again", "send 1 again"))
        self.expect_none(moved("nak", behind="send 0 again"))

    def test_what_was_acknowledged_is_not_sent_again(self):
        packets = without("send 1 again")
        at = next(place for place, one in enumerate(packets) if one.name == "send 0 again")
        late = Written("late", False, 0x11, psn_of("send 1"), aeth=Aeth(0x1f, 5))
        self.expect_none([*packets[:at + 1], late, *packets[at + 1:]])

    def test_a_read_response_does_not_fit(self):
        self.expect(changed("response middle", code=0x10, aeth=Aeth(0x1f, 3)), "read", "in the place of \"middle\"")
        self.expect(changed("response last", payload=bytes(104)), "read", "has 104 bytes and not 100")
        self.expect(changed("response first", payload=bytes(MTU - 4)), "read", "and not 1024")
        self.expect(changed("again last", psn=psn_of("send 0")), "read", "no READ asks for", "again last")
        self.expect(without("response middle"), "read", "does not follow", "response last")
        self.expect_none(without("response middle"), recorded_at="10.9.0.1")
        self.expect(changed("response last", aeth=Aeth(0x60, 3)), "read", "is no acknowledgement")
        self.expect(moved("read", behind="response first"), "read", "no READ asks for", "response first")

    def test_an_acknowledgement_for_what_was_not_sent(self):
        for name in ("send acknowledged", "all acknowledged"):
            psn = (psn_of(name) + 1) % (1 << 24)
            self.expect(changed(name, psn=psn), "acknowledgements", f"PSN {psn}, which was not sent", name)

    def test_a_message_sequence_number_is_wrong(self):
        self.expect(changed("again first", aeth=Aeth(0x1f, 0)), "acknowledgements", "3 less than before", "again first")
        self.expect(changed("all acknowledged", aeth=Aeth(0x1f, 6)), "acknowledgements", "is 1 too low")
        self.expect(changed("all acknowledged", aeth=Aeth(0x1f, 8)), "acknowledgements", "is 1 too high")

    def test_a_congestion_notification_has_another_form(self):
        self.expect(changed("notice", payload=bytes(15) + b"\1"), "cnp", "not 16 bytes of zeros")
        self.expect(changed("notice", payload=bytes(12)), "cnp", "not 16 bytes of zeros")
        self.expect(changed("notice", backward=False), "cnp", "BECN")
        self.expect(changed("notice", psn=1), "cnp", "not all zero")

    def test_a_congestion_notification_without_cause(self):
        packets = changed("send 2", congested=False)
        self.expect([one for one in packets if one.name != "second notice"], "cnp", "was marked", "notice")
        self.expect_none(packets, recorded_at="10.9.0.1")

    def test_congestion_notifications_that_are_too_many(self):
        packets = moved("second notice", behind="notice")
        at = next(place for place, one in enumerate(packets) if one.name == "second notice")
        packets[at] = replace(packets[at], time=0)
        self.expect(packets, "cnp", "10.0 us after the last one", "second notice")
        self.assertEqual(check(iter(frames_of(packets)), "test", Options()).violations, [])

    def test_connections_between_the_same_addresses_are_told_apart(self):
        """Pairs 0x21 and 0x22, whose PSNs differ, and whose packets come between those of the first."""
        merged = []
        for frame in frames_of(conversation()):
            content = bytearray(frame.content)
            content[49] += 0x10
            if content[42] != 0x81:
                psn = (int.from_bytes(content[51:54]) + 1_000_000) % (1 << 24)
                content[51:54] = psn.to_bytes(3)
            right = read_packet(1, 0, bytes(content)).right_icrc
            content[-4:] = right.to_bytes(4, "little")
            merged += [frame, replace(frame, content=bytes(content))]
        report = checked([replace(frame, number=number) for number, frame in enumerate(merged, 1)])
        self.assertEqual(report.violations, [])
        self.assertEqual([(one.pair, other.pair) for _, _, one, other in report.connections],
                         [(0x11, 0x12), (0x21, 0x22)])

    def test_numbers_count_on_after_their_highest(self):
        self.assertEqual([after(0, (1 << 24) - 1), after((1 << 24) - 1, 0), after(1 << 23, 0)], [1, -1, -(1 << 23)])


if __name__ == "__main__":
    unittest.main()
