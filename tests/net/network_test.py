#!/usr/bin/env python3
"""network.py makes machines that reach each other, disturbs what is between them, and leaves nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import namespaces  # noqa: E402
from network import SKIPPED, Machine, Network, available  # noqa: E402

PROGRAM = Path(__file__).resolve().parent / "network.py"
PORT = 7777
SO_RCVBUFFORCE = 33  # the socket module has no name for it
TIMEOUT = 40  # seconds; it takes well under one, but for machines that have other work
SILENCE = 0.4  # seconds after which nothing comes any more
PORTION = 100  # datagrams at once: fewer than the kernel keeps between two machines

# A run that somebody ends: it says what its network is called, and somebody is on a machine.
OWNER = """
import signal
from network import Network
# As a shell begins it, though whoever runs the tests ignores them (nohup, a job in the background).
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
with Network(2) as network:
    print(network.machine(1).popen(["sleep", "600"]).pid, network.prefix, flush=True)
    signal.pause()
"""


def receiving(machine: Machine) -> socket.socket:
    """A datagram socket with room for all that a test sends."""
    receiver = machine.socket(socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    receiver.bind((machine.address, PORT))
    receiver.settimeout(SILENCE)
    return receiver


def arrived(source: Machine, destination: Machine, count: int) -> int:
    """How many of this many datagrams."""
    with receiving(destination) as receiver, source.socket(socket.SOCK_DGRAM) as sender:
        for number in range(1, count + 1):
            sender.sendto(b"x" * 100, (destination.address, PORT))
            if number % PORTION == 0:
                time.sleep(0.002)
        received = 0
        try:
            while received < count:
                received += bool(receiver.recv(200))
        except TimeoutError:
            pass
        return received


def connect(source: Machine, destination: Machine) -> tuple[socket.socket, socket.socket]:
    with destination.socket(socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((destination.address, PORT))
        listener.listen()
        sender = source.socket(socket.SOCK_STREAM)
        sender.settimeout(TIMEOUT)
        sender.connect((destination.address, PORT))
        receiver, _ = listener.accept()
    receiver.settimeout(TIMEOUT)
    return sender, receiver


def flood(sender: socket.socket) -> None:
    try:
        while True:
            sender.sendall(bytes(1 << 16))
    except OSError:
        pass  # the other side has seen enough


def megabits_per_second(source: Machine, destination: Machine, seconds: float) -> float:
    """Of a TCP stream, after the time it takes to find the limit."""
    sender, receiver = connect(source, destination)
    flooding = threading.Thread(target=flood, args=[sender])
    with sender, receiver:
        flooding.start()
        drain(receiver, 0.2)
        began = time.monotonic()
        count = drain(receiver, seconds)
        rate = count * 8 / (time.monotonic() - began) / 1e6
        receiver.close()
        flooding.join()
    return rate


def drain(receiver: socket.socket, seconds: float) -> int:
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        count += len(receiver.recv(1 << 20))
    return count


def wait_for(condition) -> bool:
    until = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def is_there(pid: int) -> bool:
    return namespaces.start_of(pid) != ""


def ends(pid: int) -> bool:
    return wait_for(lambda: not is_there(pid))


def links_like_ours() -> list[str]:
    """In the host's own namespace, where the network has no business."""
    return [name for _, name in socket.if_nameindex() if re.fullmatch(r"port\d+|bridge", name)]


class Traffic(unittest.TestCase):
    """One network of three machines: each test leaves it as it was."""

    @classmethod
    def setUpClass(cls):
        cls.network = cls.enterClassContext(Network(3))
        cls.one, cls.two, cls.three = cls.network.machines

    def setUp(self):
        for machine in self.network.machines:  # so that all know all addresses
            for other in self.network.machines:
                if machine is not other:
                    self.assertEqual(arrived(machine, other, 1), 1, f"{machine.index} {other.index}")

    def test_a_command_runs_on_its_machine(self):
        with self.one.popen(["cat"], stdin=subprocess.PIPE) as cat:
            self.assertTrue(wait_for(lambda: Path(f"/proc/{cat.pid}/comm").read_text() == "cat\n"))
            self.assertEqual(namespaces.processes_in([self.one.namespace]), [cat.pid])
        done = self.two.run(["ip", "-brief", "address"], check=True, capture_output=True, text=True)
        self.assertIn("10.77.0.2/24", done.stdout)
        self.assertIn("127.0.0.1/8", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 2, done.stdout)  # and no third interface

    def test_tcp_crosses_the_switch(self):
        sender, receiver = connect(self.one, self.three)
        with sender, receiver:
            self.assertEqual(receiver.getpeername()[0], "10.77.0.1")
            sender.sendall(b"question")
            self.assertEqual(receiver.recv(100), b"question")
            receiver.sendall(b"answer")
            self.assertEqual(sender.recv(100), b"answer")

    def test_a_limit_holds_each_way_until_it_is_lifted(self):
        self.two.limit("50mbit")
        for source, destination in ((self.one, self.two), (self.two, self.one)):
            rate = megabits_per_second(source, destination, 1.0)
            self.assertTrue(25 <= rate <= 57.5, f"{rate:.1f} Mbit/s to {destination.address}")
        for more in ("400mbit", None, None):  # None twice: nothing to lift is no error
            self.two.limit(more)
        self.assertGreater(megabits_per_second(self.one, self.two, 0.3), 70)

    def test_one_direction_is_cut(self):
        self.two.drop_from(self.one)
        self.assertEqual(arrived(self.one, self.two, 50), 0)
        self.assertEqual(arrived(self.two, self.one, 50), 50)
        self.assertEqual(arrived(self.three, self.two, 50), 50)
        self.two.accept_from(self.one)
        self.assertEqual(arrived(self.one, self.two, 50), 50)

    def test_some_are_lost_each_way(self):
        self.two.lose(0.2)
        for source, destination in ((self.one, self.two), (self.two, self.three)):
            self.assertAlmostEqual(arrived(source, destination, 4000) / 4000, 0.8, delta=0.05)
        self.assertEqual(arrived(self.one, self.three, 500), 500)
        self.two.lose(0)
        self.assertEqual(arrived(self.one, self.two, 500), 500)

    def test_all_are_lost_one_way(self):
        self.two.lose(1, source=self.one)
        self.assertEqual(arrived(self.one, self.two, 50), 0)
        self.assertEqual(arrived(self.two, self.one, 50), 50)
        self.two.lose(0, source=self.one)
        self.assertEqual(arrived(self.one, self.two, 50), 50)

    def test_a_cable_is_pulled_and_put_back(self):
        sender, receiver = connect(self.one, self.two)
        with sender, receiver:
            self.two.unplug()
            self.assertEqual(arrived(self.one, self.two, 20), 0)
            self.assertEqual(arrived(self.two, self.one, 20), 0)
            self.assertEqual(arrived(self.one, self.three, 20), 20)
            sender.sendall(b"late")
            self.two.plug()
            self.assertEqual(receiver.recv(100), b"late")
        # Who asked for an address in vain asks again within a second.
        self.assertTrue(wait_for(lambda: arrived(self.two, self.one, 20) == 20))

    def test_what_cannot_be_is_refused(self):
        for refused in (lambda: self.two.lose(1.5), lambda: self.two.limit("50 mbit"),
                        lambda: Network(0), lambda: Network(255)):
            self.assertRaises(ValueError, refused)
        self.assertRaises(IndexError, self.network.machine, 0)
        self.assertRaises(namespaces.NetworkError, namespaces.call, "ip", "-n", "nowhere", "link")


class Rails(unittest.TestCase):
    def test_each_is_a_network_of_its_own(self):
        with Network(2, rails=2) as network:
            one, two = network.machines
            self.assertEqual(two.addresses, ["10.77.0.2", "10.78.0.2"])

            def reached(rail: int) -> bool:
                two.address = two.addresses[rail]
                return arrived(one, two, 1) == 1

            self.assertTrue(wait_for(lambda: reached(0) and reached(1)))
            before = one.carried(1)
            self.assertTrue(reached(1))
            self.assertGreater(one.carried(1), before)
            two.unplug(1)
            self.assertTrue(reached(0))
            self.assertFalse(reached(1))
            two.plug(1)
            self.assertTrue(wait_for(lambda: reached(1)))
            one.limit("1mbit", rail=1)
            self.assertIn("tbf", one.run(["tc", "qdisc", "show", "dev", "eth1"], capture_output=True, text=True).stdout)
            self.assertNotIn("tbf", one.run(["tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True).stdout)
            one.limit(None, rail=1)
        self.assertRaises(ValueError, Network, 1, rails=9)


class Racks(unittest.TestCase):
    def test_their_machines_share_an_uplink(self):
        with Network(4, racks=2) as network:
            one, two, three, four = network.machines
            self.assertEqual([machine.rack for machine in network.machines], [0, 0, 1, 1])
            network.switch.limit_uplink(0, "20mbit", 30_000, 100_000)
            within = megabits_per_second(one, two, 0.5)
            # What has queued up and the burst come on top of the rate: over seconds that is little.
            self.assertLess(megabits_per_second(one, three, 3), 21)
            self.assertLess(megabits_per_second(four, two, 3), 21, "each way")
            self.assertGreater(within, 100)
            self.assertRaises(ValueError, one.drop_from, three)
            self.assertEqual(arrived(three, four, 100), 100)
        self.assertRaises(ValueError, Network, 3, racks=2)


class Frames(unittest.TestCase):
    def test_they_are_as_large_as_the_network_allows(self):
        for mtu, offload, lowest, highest in ((1500, False, 1400, 1500), (9000, False, 8500, 9000),
                                              (1500, True, 1501, 1 << 16)):
            with self.subTest(mtu=mtu, offload=offload), Network(2, mtu, offload) as network:
                megabits_per_second(network.machine(1), network.machine(2), 0.2)
                sizes = network.machine(1).run(
                    ["cat", "/sys/class/net/eth0/statistics/tx_bytes",
                     "/sys/class/net/eth0/statistics/tx_packets"], capture_output=True, check=True).stdout
                octets, packets = map(int, sizes.split())
                self.assertTrue(lowest <= octets / packets - 14 <= highest, octets / packets)


class Endings(unittest.TestCase):
    def setUp(self):
        namespaces.remove(namespaces.left_over())
        self.links = links_like_ours()

    def assert_gone(self, prefix: str) -> None:
        self.assertEqual(namespaces.names_with(prefix), [])
        self.assertNotIn(prefix, subprocess.check_output(["ip", "netns", "list"], text=True))
        self.assertEqual(links_like_ours(), self.links)

    def test_two_networks_do_not_see_each_other(self):
        with Network(2) as first, Network(2) as second:
            with receiving(second.machine(2)) as receiver:
                self.assertEqual(arrived(first.machine(1), first.machine(2), 10), 10)
                self.assertRaises(TimeoutError, receiver.recv, 100)
            first.machine(2).unplug()
            self.assertEqual(arrived(second.machine(1), second.machine(2), 10), 10)
        self.assert_gone(first.prefix)
        self.assert_gone(second.prefix)

    def test_it_goes_after_an_exception(self):
        with self.assertRaises(ZeroDivisionError), Network(2) as network:
            sleeper = network.machine(1).popen(["sleep", "600"])
            raise ZeroDivisionError
        self.assertEqual(sleeper.wait(TIMEOUT), -signal.SIGKILL)
        self.assert_gone(network.prefix)

    def own(self) -> tuple[subprocess.Popen, int, str]:
        """A process with a network: (it, somebody on a machine of it, the network's prefix)"""
        owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(PROGRAM.parent)})
        self.addCleanup(owner.communicate)
        self.addCleanup(owner.terminate)
        pid, prefix = owner.stdout.readline().split()
        self.assertEqual(len(namespaces.names_with(prefix)), 3)
        return owner, int(pid), prefix

    def test_it_goes_after_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            owner, sleeper, prefix = self.own()
            owner.send_signal(number)
            self.assertEqual(owner.wait(TIMEOUT), -number)
            self.assertTrue(ends(sleeper))
            self.assert_gone(prefix)

    def test_the_next_run_clears_away_after_sigkill(self):
        living, neighbour, neighbours = self.own()
        owner, sleeper, prefix = self.own()
        for pid, names in ((sleeper, prefix), (neighbour, neighbours)):
            self.assertTrue(wait_for(lambda: pid in namespaces.processes_in(namespaces.names_with(names))))
        owner.kill()
        owner.wait(TIMEOUT)
        self.assertEqual(len(namespaces.names_with(prefix)), 3)
        self.assertTrue(is_there(sleeper))
        with Network(1):
            self.assertTrue(ends(sleeper))
            self.assert_gone(prefix)
            self.assertTrue(is_there(neighbour), "of a run that lives")
            self.assertEqual(len(namespaces.names_with(neighbours)), 3)
        living.terminate()
        living.wait(TIMEOUT)
        self.assert_gone(neighbours)


class CommandLine(unittest.TestCase):
    def run_program(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)

    def test_it_tells_the_command_and_passes_on_its_status(self):
        done = self.run_program("--machines", "3", "--", "sh", "-c",
                                'echo $TALLY_NET_ADDRESSES; echo $TALLY_NET_NAMESPACES; '
                                'ip netns exec "${TALLY_NET_NAMESPACES##*,}" ip address; exit 5')
        self.assertEqual(done.returncode, 5, done)
        addresses, names, *inside = done.stdout.split("\n")
        self.assertEqual(addresses, "10.77.0.1,10.77.0.2,10.77.0.3")
        self.assertIn("10.77.0.3/24", "".join(inside))
        self.assertEqual(set(namespaces.names_with("tally-")) & set(names.split(",")), set())

    def test_other_ends_have_the_status_of_a_shell(self):
        self.assertEqual(self.run_program("--", "sh", "-c", "kill -TERM $$").returncode, 128 + signal.SIGTERM)
        missing = self.run_program("no-such-program")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("no-such-program", missing.stderr)

    def test_a_signal_ends_the_command_too(self):
        with subprocess.Popen([PROGRAM, "--", "sh", "-c", "echo $$; exec sleep 600"],
                              stdout=subprocess.PIPE, text=True) as program:
            sleeper = int(program.stdout.readline())
            program.terminate()
            self.assertEqual(program.wait(TIMEOUT), -signal.SIGTERM)
        self.assertTrue(ends(sleeper))

    def test_without_tools_it_says_why_and_skips(self):
        done = subprocess.run([sys.executable, PROGRAM, "true"], env={"PATH": "/nowhere"},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, SKIPPED)
        self.assertIn("iproute2", done.stdout)


if __name__ == "__main__":
    if reason := available():
        print(reason)
        sys.exit(SKIPPED)
    unittest.main()
