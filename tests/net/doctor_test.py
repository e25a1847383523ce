#!/usr/bin/env python3
"""tallyctl doctor --path over real networks: what it verifies, what it finds broken, and what it only believes.

usage: doctor_test.py TALLYCTL
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from network import SKIPPED, Machine, Network, available  # noqa: E402
from namespaces import call  # noqa: E402

JUMBO = 9000
TIMEOUT = 60  # seconds; a silent host takes about three
V6 = {1: "fd77::1", 2: "fd77::2"}


class PathTest(unittest.TestCase):
    tallyctl = ""

    def setUp(self):
        network = Network(2, mtu=JUMBO)
        self.network = network.__enter__()
        self.addCleanup(network.__exit__, None, None, None)

    def examine(self, host: str) -> tuple[int, dict]:
        """(exit status, the one finding)"""
        asked = self.network.machine(1).run([self.tallyctl, "doctor", "--json", "--check", "path", "--path", host],
                                            text=True, stdout=subprocess.PIPE, timeout=TIMEOUT)
        findings = json.loads(asked.stdout)["findings"]
        self.assertEqual(len(findings), 1, asked.stdout)
        return asked.returncode, findings[0]

    def expect(self, host: str, status: int, level: str, value: str) -> None:
        found = self.examine(host)
        self.assertEqual((found[0], found[1]["level"]), (status, level), found[1])
        self.assertIn(value, found[1]["value"])

    def set_port(self, machine: Machine, mtu: int) -> None:
        call("ip", "-n", self.network.switch.namespace, "link", "set", f"port{machine.index}", "mtu", str(mtu))

    def test_what_arrives_is_verified_and_what_is_swallowed_is_found(self):
        other = self.network.machine(2)
        self.expect(other.address, 0, "ok", "packets of 9000 bytes arrive (verified")
        self.set_port(other, 4200)  # as at a switch that nobody told of jumbo frames: no word about it
        self.expect(other.address, 1, "problem", "packets of 9000 bytes get lost on the way, of 4200 arrive")
        self.set_port(other, 1500)
        self.expect(other.address, 1, "problem", "packets of 9000 bytes get lost on the way, of 1500 arrive")

    def test_silence_is_not_taken_for_an_answer(self):
        self.network.machine(1).drop_from(self.network.machine(2))
        found = self.examine(self.network.machine(2).address)
        self.assertIn(found[1]["level"], ("note", "warning"), found[1])
        self.assertNotIn("arrive", found[1]["value"])

    def test_version_6_too(self):
        for machine in self.network.machines:
            call("ip", "-n", machine.namespace, "address", "add", f"{V6[machine.index]}/64", "dev",
                 machine.interface, "nodad")
        self.expect(V6[2], 0, "ok", "packets of 9000 bytes arrive (verified")
        self.set_port(self.network.machine(2), 1500)
        self.expect(V6[2], 1, "problem", "of 1500 arrive")

    def test_an_address_without_a_route_is_reported(self):
        self.expect("10.99.0.1", 0, "warning", "unreachable")


if __name__ == "__main__":
    if reason := available():
        print(reason)
        sys.exit(SKIPPED)
    PathTest.tallyctl = sys.argv.pop(1)
    unittest.main()
