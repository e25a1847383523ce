#!/usr/bin/python3
"""check_recording.py with recordings of jobs over the cable of tests, with captured frames, and with other files.

usage: recordings_test.py E2E_ROCE_TEST FRAMES.txt [names of tests]
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CHECKER = FOLDER / "check_recording.py"
JOBS = "Collectives.EveryKind*"
RATE = 0.01
SEED = int(os.environ.get("TALLY_SIM_SEED", "7"))
_HEADER, _EACH = 24, struct.Struct("<IIII")  # of the recorder's files: their header, and that of a frame

program = frames_file = ""  # by the command line


def check(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, CHECKER, *map(str, words)], capture_output=True, text=True, check=False)


def file_header(link_type: int = 1) -> bytes:
    """Of a pcap file with times in nanoseconds. Link type 1 is Ethernet."""
    return struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 1 << 18, link_type)


def split(recording: bytes) -> list[bytes]:
    """The frames of a recording, each with its header."""
    parts, at = [], _HEADER
    while at < len(recording):
        length = _EACH.size + _EACH.unpack_from(recording, at)[2]
        parts.append(recording[at:at + length])
        at += length
    return parts


def captured() -> Iterator[bytes]:
    for line in Path(frames_file).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield bytes.fromhex(line.split()[2])


class Recordings(unittest.TestCase):
    def setUp(self):
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="roce-recordings-")))

    def file(self, name: str, content: bytes) -> Path:
        path = self.place / name
        path.write_bytes(content)
        return path

    def record(self, rate: float, mark: float = 0) -> Path:
        """Records jobs over a cable whose frames have each fault with this chance. mark: the chance of the mark of ECN."""
        path = self.place / f"jobs-{rate}.pcap"
        faults = f"seed={SEED},loss={rate},double={rate},swap={rate},damage={rate},mark={mark}"
        environment = {"TALLY_TRANSPORT": "verbs", "TALLY_TEST_NODE": "roce", "TALLY_TEST_ACK_TIMEOUT": "12",
                       "TALLY_TEST_RECORDING": str(path), "TALLY_TEST_CABLE": faults}
        done = subprocess.run([program, f"--gtest_filter={JOBS}", "--gtest_brief=1"], env=os.environ | environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return path

    def report(self, *words: object, status: int = 0) -> dict:
        done = check("--json", *words)
        self.assertEqual(done.returncode, status, done.stdout[-3000:] + done.stderr)
        return json.loads(done.stdout)

    def test_jobs_without_faults(self):
        path = self.record(0)
        report = self.report(path, "--notice-spacing-us", 50)
        self.assertEqual(report["frames"], report["packets"])
        ends = [end for connection in report["connections"] for end in connection["ends"]]
        self.assertGreater(sum(end["reads"] for end in ends), 10)
        self.assertEqual(sum(end["naks"] + end["marked"] + end["notices"] for end in ends), 0)
        self.assertNotIn(None, [end["pair"] for end in ends])

    def test_jobs_with_faults(self):
        path = self.record(RATE)
        report = self.report(path, "--notice-spacing-us", 50)
        ends = [end for connection in report["connections"] for end in connection["ends"]]
        for name, least in (("reads", 10), ("again", 10), ("naks", 1), ("responses", 100)):
            self.assertGreaterEqual(sum(end[name] for end in ends), least, name)
        self.leave_out_a_request(path)

    def test_jobs_over_a_congested_switch(self):
        report = self.report(self.record(0, mark=0.1), "--notice-spacing-us", 50)
        ends = [end for connection in report["connections"] for end in connection["ends"]]
        self.assertGreater(sum(end["marked"] for end in ends), 100)
        self.assertGreater(sum(end["notices"] for end in ends), 10)

    def leave_out_a_request(self, path: Path) -> None:
        """Without a middle packet of a WRITE that was sent once, the recording has one violation."""
        recording = path.read_bytes()
        parts = split(recording)
        middle = [number for number, part in enumerate(parts) if part[_EACH.size + 42] == 0x07]
        seen = [parts[number][_EACH.size + 26:_EACH.size + 34] + parts[number][_EACH.size + 46:_EACH.size + 54]
                for number in middle]
        once = next(number for number, its in zip(middle, seen) if seen.count(its) == 1)
        changed = self.file("changed.pcap", recording[:_HEADER] + b"".join(parts[:once] + parts[once + 1:]))
        violations = self.report(changed, status=1)["violations"]
        self.assertEqual([one["rule"] for one in violations], ["go_back_n"], violations)
        self.assertIn("skipped PSNs: 1", violations[0]["text"])

    def test_captured_frames_in_each_format(self):
        from scapy.utils import RawPcapNgWriter, RawPcapWriter
        frames = list(captured())
        writers = {"micro.pcap": RawPcapWriter, "next.pcapng": RawPcapNgWriter,
                   "nano.pcap": lambda path: RawPcapWriter(path, nano=True),
                   "big.pcap": lambda path: RawPcapWriter(path, endianness=">")}
        for name, writer in writers.items():
            path = str(self.place / name)
            opened = writer(path)
            for frame in frames:
                opened.write(frame)
            opened.close()
            report = self.report(path, "--rule", "icrc")
            self.assertEqual((report["frames"], report["packets"]), (len(frames), len(frames)), name)
        damaged = self.place / "damaged.pcap"
        opened = RawPcapWriter(str(damaged))
        for frame in frames:
            opened.write(frame[:-6] + bytes([frame[-6] ^ 4]) + frame[-5:])
        opened.close()
        violations = self.report(damaged, "--rule", "icrc", status=1)["violations"]
        self.assertEqual([one["frame"] for one in violations], list(range(1, len(frames) + 1)))

    def test_what_is_no_recording_is_refused_with_the_reason(self):
        frame = next(captured())
        header = file_header()
        whole = _EACH.pack(1, 0, len(frame), len(frame)) + frame
        files = {
            "none": (None, "No such file"),
            "text": (b"no recording at all, but some text", "Not a"),
            "empty": (b"", "No data"),
            "any": (file_header(113) + whole, "link type 113"),
            "ends": (header + whole + whole[:-3], "ends inside frame 2"),
            "short": (header + _EACH.pack(1, 0, 60, len(frame)) + frame[:60], "only the beginning of frame 1"),
        }
        for name, (content, words) in files.items():
            path = self.place / name if content is None else self.file(name, content)
            done = check(path)
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertRegex(done.stderr, f"^check_recording: {path}: .*{words}.*: .+", name)

    def test_a_recording_in_which_nothing_is_checked_is_refused(self):
        empty = self.file("others.pcap", file_header())
        done = check(empty)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no packet of RoCEv2", done.stderr)
        self.assertEqual(check(empty, "--recorded-at", "here").returncode, 2)

    def test_lines_name_connections_violations_and_sums(self):
        sys.path.insert(0, str(FOLDER))
        from recording.conversation import conversation, frames_of
        frames = [frame for frame in frames_of(conversation()) if frame.number != 2]
        parts = [_EACH.pack(0, frame.time, len(frame.content), len(frame.content)) + frame.content for frame in frames]
        done = check(self.file("lines.pcap", file_header() + b"".join(parts)))
        lines = done.stdout.splitlines()
        elsewhere = check(self.place / "lines.pcap", "--recorded-at", "10.9.0.77")
        self.assertEqual(elsewhere.returncode, 2)
        self.assertIn("there are 10.9.0.1, 10.9.0.2", elsewhere.stderr)
        self.assertEqual((done.returncode, len(lines)), (1, 3), done.stdout)
        self.assertRegex(lines[0], "^connection 1: mtu=1024; 10.9.0.1 qp 0x000011: packets=.*; 10.9.0.2 qp 0x000012: ")
        self.assertRegex(lines[1], "^frame 2: go_back_n: connection 1: PSN .* skipped PSNs: 1$")
        self.assertRegex(lines[2], f"^frames={len(frames)} packets={len(frames)} .* violations=1$")


if __name__ == "__main__":
    try:
        import scapy  # noqa: F401
    except ImportError:
        print(f"{sys.executable} has no scapy, which tools/setup --dev installs for /usr/bin/python3")
        sys.exit(77)
    program, frames_file = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
