#!/usr/bin/env python3
"""tallyctl doctor on machines with real verbs: all well, and each thing that it should notice.

usage: doctor_test.py TALLYCTL
"""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import kernel  # noqa: E402

SKIPPED = 77
TIMEOUT = 250  # seconds for the guest


def reports(output: str) -> dict[str, tuple[int, list[dict]]]:
    """By name: (exit status, findings)"""
    parts = re.findall(r"^== (\w+)\n(\{.*?^\})\n== status (\d+)$", output, re.MULTILINE | re.DOTALL)
    return {name: (int(status), json.loads(text)["findings"]) for name, text, status in parts}


class DoctorTest(unittest.TestCase):
    tallyctl = ""

    @classmethod
    def setUpClass(cls):
        guest = subprocess.run(
            [sys.executable, str(HERE / "guest.py"), "--machines", "2", "--timeout", "200", "--", "sh",
             str(HERE / "doctor.sh"), cls.tallyctl], text=True, stdout=subprocess.PIPE, timeout=TIMEOUT)
        cls.output = guest.stdout
        cls.reports = reports(guest.stdout)

    def expect(self, report: str, check: str, what: str, level: str, value: str) -> None:
        self.assertIn(report, self.reports, self.output)
        found = [f for f in self.reports[report][1] if f["check"] == check and what in f["what"]]
        self.assertEqual([f["level"] for f in found], [level], found)
        self.assertIn(value, found[0]["value"])

    def test_all_is_well(self):
        self.expect("good", "devices", "RDMA devices", "ok", "2: rxe1, rxe2")
        self.expect("good", "libraries", "rxe1", "ok", "can open it")
        self.expect("good", "ports", "rxe1/1", "ok", "ACTIVE, LinkUp, Ethernet")
        self.expect("good", "gids", "rxe1/1", "ok", "10.9.0.1 on v1; index 1 would be picked")
        self.expect("good", "gids", "transport verbs", "ok", "rxe1 port 1, GID 1 (10.9.0.1, RoCE v2), MTU 4096")
        self.expect("good", "mtu", "rxe1/1 on v1", "ok", "9000 bytes, payload of a packet 4096")
        self.expect("good", "counters", "rxe1/1", "ok", "none tells of trouble")
        self.assertEqual(self.reports["good"][0], 0, self.reports["good"])

    def test_an_ordinary_user_is_limited(self):
        self.expect("user", "memlock", "locked", "problem", "will fail")
        self.assertEqual(self.reports["user"][0], 1)

    def test_what_was_done_to_the_machine_is_noticed(self):
        self.expect("mtu", "mtu", "rxe1/1 on v1", "warning", "1500 bytes, payload of a packet 1024")
        self.expect("mtu", "mtu", "rxe2/1 on v2", "ok", "4096")
        self.expect("address", "gids", "rxe1/1", "warning", "link-local")
        self.expect("address", "gids", "transport verbs", "ok", "rxe2 port 1, GID 1")
        self.expect("down", "ports", "rxe1/1", "warning", "DOWN")
        self.expect("down", "ports", "rxe2/1", "ok", "ACTIVE")
        self.expect("none", "devices", "RDMA devices", "note", "served over TCP")


if __name__ == "__main__":
    try:
        kernel.require_programs()
        kernel.Kernel()
    except kernel.Missing as lacking:
        print(f"vm: {lacking}")
        sys.exit(SKIPPED)
    DoctorTest.tallyctl = str(Path(sys.argv.pop(1)).resolve())  # the guest is elsewhere
    unittest.main()
