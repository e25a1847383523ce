#!/usr/bin/env python3
"""tallyctl probe over networks whose cables have known speeds: what is measured, what is made of it, who is refused.

usage: probe_test.py TALLYD TALLYCTL
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "support")]
from network import SKIPPED, Network, available  # noqa: E402
from processes import Tallyd, end_all  # noqa: E402

TALLYD = TALLYCTL = ""
PORT = 7733
TIMEOUT = 240  # seconds
MEGABIT = 1e6 / 8
JUMBO = 9000  # bytes of a packet: with 1500, headers and acknowledgements are 7 % of what a cable carries
BURST, QUEUE = 32_000, 1_000_000  # bytes: room for the moments in which a busy host does nothing
SECRET = "secret:a text for tests"
LEAST, MOST = 0.3, 1.1  # of the rate: a cable never carries more, and a busy machine may not fill it


class Probe(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tally-probe-")
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)

    def cluster(self, rates: list[str], racks: int = 1) -> None:
        """A machine for each rate, with a node; the first one's coordinates, and is no worker's."""
        self.network = Network(len(rates), mtu=JUMBO, racks=racks)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__, None, None, None)
        self.addCleanup(end_all)
        self.config = self.place / "tallyd.toml"
        self.secret = self.place / "secret"
        self.secret.touch(0o600)
        self.secret.write_text(SECRET)
        self.config.write_text(f'[security]\nsecret_file = "{self.secret}"\n')
        for machine, rate in zip(self.network.machines, rates):
            machine.limit(rate, BURST, QUEUE)
            Tallyd(TALLYD, "--config", self.config, "--listen-tcp", f"tcp:*:{PORT}", "--verbs", "off", "--fabric", "on", "--shards",
                   "1", "--cluster", self.address(1), "--cluster-name", f"m{machine.index}", "--cluster-host",
                   f"m{machine.index}", "--cluster-role", "helper" if machine.index == 1 else "worker", "--log-level", "error",
                   folder=self.place, name=f"m{machine.index}", popen=machine.popen, serves_all=False)
        until = time.monotonic() + TIMEOUT
        while len(json.loads(self.ask(1, "--json", "nodes").stdout)) != len(rates):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    def address(self, index: int) -> str:
        return f"tcp:{self.network.machine(index).address}:{PORT}"

    def ask(self, index: int, *words: str) -> subprocess.CompletedProcess:
        """tallyctl on this machine."""
        return self.network.machine(index).run([TALLYCTL, "--address", self.address(1), *words], text=True,
                                               capture_output=True, timeout=TIMEOUT,
                                               env={**os.environ, "TALLY_HOST": f"m{index}", "TALLY_TOKEN": f"@{self.secret}"})

    def probe(self, index: int, *words: str) -> dict:
        out = self.place / "m.json"
        done = self.ask(index, "probe", "--config", str(self.config), "--out", str(out), *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(out.read_text())

    def assert_near(self, speed: float, megabits: float) -> None:
        rate = megabits * MEGABIT
        self.assertTrue(LEAST * rate <= speed <= MOST * rate, f"{speed / MEGABIT:.1f} of {megabits} Mbit/s")

    def test_the_speeds_are_those_of_the_cables_and_make_a_plan(self):
        self.cluster(["100mbit", "100mbit", "50mbit"])
        measured = self.probe(1, "--seconds", "2")
        machines = {one["name"]: one for one in measured["machines"]}
        self.assertEqual(list(machines), ["m1", "m2", "m3"])
        for name, megabits in (("m1", 100), ("m2", 100), ("m3", 50)):
            for way in ("in", "out"):
                self.assert_near(machines[name][way], megabits)
            self.assertEqual(machines[name]["interface"], "eth0")
            self.assertGreater(machines[name]["sum"], 0)
        speeds = {(pair["from"], pair["to"]): pair["speed"] for pair in measured["pairs"]}
        self.assertEqual(len(speeds), 6)
        for (sender, receiver), speed in speeds.items():
            self.assert_near(speed, 50 if "m3" in (sender, receiver) else 100)
        plan = self.place / "plan.json"
        subprocess.run([TALLYCTL, "plan", "make", "--machines", self.place / "m.json", "--out", plan], check=True,
                       capture_output=True)
        nodes = json.loads(plan.read_text())["nodes"]
        self.assertEqual([(node.get("addr"), node["role"]) for node in nodes[:3]],
                         [("m1", "helper"), ("m2", "worker"), ("m3", "worker")])
        self.assertAlmostEqual(nodes[2]["in"], machines["m3"]["in"])
        subprocess.run([TALLYCTL, "plan", "check", plan], check=True, capture_output=True)

    @unittest.skipUnless(os.environ.get("TALLY_TEST_TIER") == "soak", "takes two minutes of an idle machine")
    def test_racks_that_share_a_link_are_found(self):
        self.cluster(["40mbit"] * 6, racks=2)
        for rack in range(2):  # one pair alone does not fill it
            self.network.switch.limit_uplink(rack, "50mbit", BURST, QUEUE)
        measured = self.probe(1, "--racks", "--no-pairs", "--seconds", "0.5")
        racks = {one["name"]: one["rack"] for one in measured["machines"]}
        self.assertEqual(racks, {"m1": "rack1", "m2": "rack1", "m3": "rack1", "m4": "rack2", "m5": "rack2", "m6": "rack2"})
        for rack in measured["racks"]:
            self.assert_near(rack["up"], 50)
            self.assert_near(rack["down"], 50)

    def test_one_with_another_alone(self):
        self.cluster(["100mbit", "100mbit", "100mbit"])
        measured = self.probe(1, "--to", "m3", "--seconds", "2")
        self.assertEqual([one["name"] for one in measured["machines"]], ["m1", "m3"])
        self.assertEqual(len(measured["pairs"]), 2)
        for way in ("in", "out"):
            self.assert_near(measured["machines"][0][way], 100)
            self.assert_near(measured["machines"][1][way], 100)

    def test_who_is_refused_and_who_does_not_answer_is_named(self):
        self.cluster(["100mbit", "100mbit"])
        done = self.ask(2, "probe", "--token", SECRET + "?", "--seconds", "0.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("do not accept each other's token", done.stderr)
        done = self.ask(1, "probe", "--to", "m7")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--to m7: no member", done.stderr)
        self.network.machine(2).unplug()
        done = self.ask(1, "--timeout", "1", "probe", "--config", str(self.config), "--seconds", "0.1", "--to",
                        self.address(2))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "(m2|tcp:10.77.0.2:7733): ")

    def test_a_token_of_a_job_is_not_enough(self):
        self.cluster(["100mbit", "100mbit"])
        token = subprocess.run([TALLYCTL, "token", "make", "--secret-file", self.secret, "--job", "train"], check=True,
                               text=True, capture_output=True).stdout.strip()
        done = self.ask(2, "probe", "--token", token, "--seconds", "0.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("m1: probe.machine is for operators", done.stderr)


if __name__ == "__main__":
    if reason := available():
        print(reason)
        sys.exit(SKIPPED)
    TALLYD, TALLYCTL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
