#!/usr/bin/env python3
"""A secured cluster of three hosts, as docs/security.md sets it up: what crosses the network, and who is refused.

usage: security_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "support")]
import namespaces  # noqa: E402
from network import SKIPPED, Network, available  # noqa: E402
from processes import TIMEOUT, Process, Tallyd, end_all  # noqa: E402

TALLYD = TALLYCTL = TALLY_PERF = ""
PORT = 7733
LOBBY = 7800
JOB = "a-job-whose-name-is-not-for-all"
GUESSES = {"fast": 3, "default": 5, "soak": 60}[os.environ.get("TALLY_TEST_TIER", "default")]  # seconds
GUESSES_PER_SECOND = 100
# What a client of TLS begins with that shows a token of another cluster.
HELLO = (Path(__file__).resolve().parents[1] / "fuzz/corpus/security/hello-token").read_bytes()[1:]
ETH_P_ALL = 3  # linux/if_ether.h
SOL_PACKET, PACKET_STATISTICS = 263, 6  # linux/if_packet.h
SO_RCVBUFFORCE = 33  # asm-generic/socket.h


class Capture:
    """The control traffic that crosses a network's switch: the bytes of each direction of each TCP connection."""

    def __init__(self, network: Network):
        with namespaces.entered(network.switch.namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self._socket.settimeout(0.2)
        self._frames: list[bytes] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                frame = self._socket.recv(65536)
            except TimeoutError:
                continue
            if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_TCP:  # Ethernet, IPv4
                header = 14 + 4 * (frame[14] & 15)
                if {PORT, LOBBY} & set(struct.unpack_from(">HH", frame, header)):
                    self._frames.append(frame)

    def end(self) -> dict[bytes, bytes]:
        """Returns the bytes of each direction, by its addresses and ports. Fails when the kernel has dropped a frame."""
        self._ended.set()
        self._thread.join()
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._socket.close()
        assert dropped == 0, f"{dropped} frames were not captured"
        pieces: dict[bytes, dict[int, bytes]] = {}
        for frame in self._frames:
            header = 14 + 4 * (frame[14] & 15)
            length = struct.unpack_from(">H", frame, 16)[0]
            data = frame[header + 4 * (frame[header + 12] >> 4):14 + length]
            sequence = struct.unpack_from(">I", frame, header + 4)[0]
            if data:  # the switch shows a frame at each of its ports, and TCP may send it again
                pieces.setdefault(frame[26:34] + frame[header:header + 4], {}).setdefault(sequence, data)
        return {direction: b"".join(data for _, data in sorted(parts.items())) for direction, parts in pieces.items()}


def records_of(data: bytes) -> int:
    """The number of records of TLS. Fails when the bytes are anything else; the last record may be cut."""
    count = at = 0
    while at + 5 <= len(data):
        kind, version, length = struct.unpack_from(">BHH", data, at)
        assert 20 <= kind <= 23 and version in (0x301, 0x303) and length <= 16384 + 256, data[at:at + 80]
        at += 5 + length
        count += 1
    return count


class Secured(unittest.TestCase):
    def setUp(self):
        os.environ.pop("TALLY_INSECURE", None)
        directory = tempfile.TemporaryDirectory(prefix="tally-security-")
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)
        self.secret = self.place / "secret"
        self.network = Network(3)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__, None, None, None)
        self.addCleanup(end_all)

    def cluster(self) -> None:
        self.run_tool("token", "secret", str(self.secret))
        self.nodes = [Tallyd(TALLYD, "--listen-tcp", f"tcp:{machine.address}:{PORT}", "--cluster", self.address(1),
                             "--secret-file", self.secret, "--cluster-name", f"m{machine.index}", "--cluster-host",
                             f"m{machine.index}", "--shards", "1", "--verbs", "off", "--log-level", "warning",
                             folder=self.place, name=f"m{machine.index}", popen=machine.popen, serves_all=False)
                      for machine in self.network.machines]
        until = time.monotonic() + TIMEOUT
        while len(json.loads(self.ctl(1, "--json", "nodes").stdout)) != 3:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    def run_tool(self, *words: str) -> str:
        return subprocess.run([TALLYCTL, *words], check=True, text=True, capture_output=True).stdout.strip()

    def token(self, job: str = JOB, *more: str) -> str:
        return self.run_tool("token", "make", "--secret-file", str(self.secret), "--job", job, *more)

    def token_id(self, token: str) -> str:
        return re.search("^id (.*)$", self.run_tool("token", "show", "--secret-file", str(self.secret), token), re.M)[1]

    def address(self, index: int) -> str:
        return f"tcp:{self.network.machine(index).address}:{PORT}"

    def ctl(self, index: int, *words: str, token: str | None = None, to: int = 1,
            status: int | None = 0) -> subprocess.CompletedProcess:
        """tallyctl on machine `index`, to the node on machine `to`. token: "" shows nothing; None the secret."""
        shown = f"@{self.secret}" if token is None else token
        done = self.network.machine(index).run(
            [TALLYCTL, "--address", self.address(to), *words], text=True, capture_output=True, timeout=TIMEOUT,
            env={**os.environ, "TALLY_HOST": f"m{index}", "TALLY_TOKEN": shown})
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def perf(self, index: int, *words: str, token: str) -> Process:
        return Process([TALLY_PERF, "allreduce", "--job", JOB, "--transport", "fabric", *words],
                       environment={**os.environ, "TALLY_HOST": f"w{index}", "TALLY_TOKEN": token},
                       popen=self.network.machine(index).popen)

    def run_job(self, token: str, *words: str) -> list[Process]:
        """Ranks 0 and 1 on machines 2 and 3; machine 1 serves the run."""
        here = f"{self.network.machine(1).address}:{LOBBY}"
        sizes = ["--min-bytes", "64K", "--max-bytes", "64K", "--check"]
        return [self.perf(1, "--serve", here, "--address", self.address(1), "--ranks", "2", *sizes, *words, token=token),
                self.perf(2, "--join", here, "--rank", "0", token=token),
                self.perf(3, "--join", here, "--rank", "1", token=token)]

    @staticmethod
    def interrupt(processes: list[Process]) -> None:
        processes[0].signal(signal.SIGINT)
        for process in processes:
            process.finish(None)

    def log_of(self, index: int) -> str:
        return self.nodes[index - 1].output()

    def wait_for_job(self, token: str) -> None:
        until = time.monotonic() + TIMEOUT
        while not [job for job in json.loads(self.ctl(2, "--json", "jobs", "--cluster", token=token).stdout)
                   if job["stage"] == "running"]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    def test_nothing_secret_crosses_the_network(self):
        capture = Capture(self.network)
        self.cluster()
        token = self.token()
        processes = self.run_job(token, "--iters", "100000000")
        self.wait_for_job(token)
        self.ctl(2, "jobs")
        self.ctl(2, "stats", token=token)
        self.ctl(2, "plan", "set", "--closed-form", "--job", JOB, "--now")
        self.ctl(2, "drain", "m3", "--wait", "20")
        self.ctl(2, "drain", "m3", "--undo")
        self.interrupt(processes)
        self.ctl(2, "token", "revoke", self.token_id(token))
        directions = capture.end()
        self.assertGreater(len(directions), 20, "connections, of tallyctl alone")
        # So no key of a token, of a job or of a region crosses the network in any form.
        self.assertGreater(sum(records_of(data) for data in directions.values()), 200)
        seen = b"".join(directions.values())
        secrets = {"job": JOB, "token's key": token.rpartition(".")[2], "secret": self.secret.read_text().strip()[-43:],
                   "JSON-RPC": '"jsonrpc"', "message between hosts": '"event"'}
        for what, text in secrets.items():
            self.assertNotIn(text.encode(), seen, what)

    def test_strangers_and_others_are_refused(self):
        self.cluster()
        token = self.token()
        other = self.token("another-job")
        self.assertIn("serves TCP only to who shows a token", self.ctl(3, "status", token="", status=1).stderr)
        self.assertIn("do not accept each other's token", self.ctl(3, "status", token="secret:of somebody else", status=1).stderr)
        self.ctl(3, "status", token=self.token(JOB, "--expires", "60s"))
        expired = self.token(JOB, "--expires", "1s")
        time.sleep(1.1)
        self.ctl(3, "status", token=expired, status=1)
        revoked = self.token()
        self.ctl(3, "status", token=revoked, to=2)
        self.ctl(1, "token", "revoke", self.token_id(revoked))
        for node in (1, 2, 3):
            self.ctl(3, "status", token=revoked, to=node, status=1)
        processes = self.run_job(token, "--iters", "100000000")
        self.wait_for_job(token)
        self.assertEqual(json.loads(self.ctl(3, "--json", "jobs", "--cluster", token=other).stdout), [])
        self.assertEqual(json.loads(self.ctl(3, "--json", "jobs", token=other).stdout), [])
        self.assertIn(f'no job "{JOB}" runs here', self.ctl(3, "ranks", JOB, token=other, status=1).stderr)
        self.assertIn("is for operators", self.ctl(3, "drain", "m2", token=token, status=2).stderr)
        intruder = self.perf(3, "--address", self.address(1), "--rank", "0", "--ranks", "1", token=other)
        self.assertIn("is not for this job", intruder.finish(None))
        self.interrupt(processes)
        log = self.log_of(1)
        for reason in ("shows no token and no secret", "has expired", "is revoked", "unknown here", "is for operators",
                       "is not for this job"):
            self.assertRegex(log, f"event=access-refused .*{reason}")

    def test_who_guesses_is_slowed_down_and_others_are_not(self):
        self.cluster()
        token = self.token()
        processes = self.run_job(token, "--iters", str(400 * GUESSES))
        self.wait_for_job(token)
        guesser = self.network.machine(3)
        sent, open_sockets, slowest = 0, [], 0.0
        until = time.monotonic() + GUESSES
        next_look = time.monotonic()
        while time.monotonic() < until:
            guess = guesser.socket(socket.SOCK_STREAM)
            guess.setblocking(False)
            guess.connect_ex((self.network.machine(1).address, PORT))
            time.sleep(1 / GUESSES_PER_SECOND)
            try:
                guess.send(HELLO)
                sent += 1
            except OSError:
                pass
            open_sockets = [*open_sockets, guess][-200:]
            if time.monotonic() > next_look:
                began = time.monotonic()
                self.ctl(2, "status", token=token)
                slowest = max(slowest, time.monotonic() - began)
                next_look = time.monotonic() + 0.5
        for process in reversed(processes):
            process.finish()
        refused = json.loads(self.ctl(2, "--json", "status").stdout)["connections"]["refused_keys"]
        self.assertGreater(sent, 10 * GUESSES)
        self.assertLess(refused, sent / 2, "most wait for their turn")
        self.assertLess(slowest, 2, "a client of another machine")
        self.assertRegex(self.log_of(1), f"event=access-refused peer={re.escape(guesser.address)}:")


if __name__ == "__main__":
    if reason := available():
        print(reason)
        sys.exit(SKIPPED)
    TALLYD, TALLYCTL, TALLY_PERF = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
