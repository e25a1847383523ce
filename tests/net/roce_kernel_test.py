#!/usr/bin/env python3
"""Ports of network.roce beside the kernel, by AF_XDP: the machines have one interface, which carries RoCE's packets to
the nodes, and control connections, ping and UDP to the kernel.

usage: roce_kernel_test.py TALLYD TALLYCTL TALLY_PERF [CASE...]
$TALLYD_XDP: the program that has AF_XDP beside the kernel, if it was built
"""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "e2e")]
from namespaces import NetworkError, call, entered  # noqa: E402
from network import SKIPPED, Network, available  # noqa: E402
from nodes import TIMEOUT, Cluster, Process, Tallyd, run_tests  # noqa: E402

PORT = 7733
ROCE_PORT = 4791
ECHO_REQUEST, ECHO_REPLY = 8, b"\0\0"
INTERFACE = "eth0"
PROGRAM = "tally_roce"
CHECKED = ["--warmup", "1", "--check", "--type", "i32"]
SWEEP = ["--min-bytes", "4", "--max-bytes", "512K", "--factor", "21", "--iters", "2", *CHECKED]
LONG = ["--min-bytes", "1M", "--max-bytes", "1M", "--iters", "60", *CHECKED]
PATIENT = "ack_timeout = 18\n"  # a second: connections outlive an interface that is down for less


class BesideTheKernel(Cluster):
    """Node "a" is on machine 1 and coordinates, "b" on 2 with both ranks. RoCE has addresses of its own, for which only
    the nodes have the kernel ask."""

    PROGRAM_OF_NODE = os.environ.get("TALLYD_XDP")
    DEVICE = f"net_af_xdp0,iface={INTERFACE}"
    CHAIN = {"w0": "b", "w1": "b", "b": "a", "a": ""}

    def setUp(self):
        super().setUp()
        self.network = Network(2)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__, None, None, None)
        for machine in self.network.machines:
            self.ip(machine, "address", "add", f"10.79.0.{machine.index}/24", "dev", INTERFACE)
            self.ip(machine, "address", "add", f"fd79::{machine.index}/64", "dev", INTERFACE, "nodad")

    def machine(self, name: str):
        return self.network.machine(1 + "ab".index(name))

    @staticmethod
    def ip(machine, *words: str) -> str:
        return call("ip", "-n", machine.namespace, *words)

    def start_on_port(self, name: str, address: str = "10.79.0.{}", more: str = "", program: str = "",
                      device: str = DEVICE, as_user: tuple = ()) -> None:
        machine = self.machine(name)
        chosen = f'roce_address = "{address.format(machine.index)}"\n' if address else ""
        coordinator = f"tcp:{self.machine('a').address}:{PORT}"
        flags = ["--shards", "1", "--listen-tcp", f"tcp:{machine.address}:{PORT}", "--cluster", coordinator,
                 "--cluster-name", name, "--cluster-host", name]
        self.nodes[name] = Tallyd(program or self.PROGRAM_OF_NODE, *flags, folder=self.place, name=name,
                                  config=f'[network]\nroce = "{device}"\n{chosen}{more}',
                                  popen=lambda command, **how: machine.popen([*as_user, *command], **how))

    def chain(self, **how) -> None:
        for name in "ab":
            self.start_on_port(name, **how)
        self.wait_for(2)
        self.ctl("plan", "set", self.tree_plan(["w0", "w1"], ["a", "b"], [self.CHAIN]))

    def perf_on_b(self, *arguments: str, kind: str = "allreduce") -> Process:
        return Process([self.TALLY_PERF, kind, "--spawn", 2, "--address", self.address("b"), *arguments],
                       environment={"TALLY_HOST": "b"}, popen=self.machine("b").popen)

    def checked(self, kind: str = "allreduce") -> None:
        """With right sums."""
        out = self.place / "rows.json"
        text = self.perf_on_b(*SWEEP, "--json", str(out), kind=kind).finish()
        document = json.loads(out.read_text())
        self.assertEqual(document["wrong"], 0, text)
        self.assertGreater(document["checked"], 0)

    def long_run(self) -> Process:
        """That has begun. It fails if a sum is wrong."""
        run = self.perf_on_b(*LONG)
        run.skip_to("^# allreduce")
        return run

    def uses_ports(self, address: str) -> None:
        """By RoCE's packets, and by no others."""
        for name in "ab":
            self.assertRegex(self.nodes[name].output(), f"address={address.format('[12]')} beside_kernel=true")
            counted = [shard["roce"] for shard in self.stats(name)["shards"]]
            self.assertGreater(sum(one["received"] for one in counted), 0)
            for key in ("unreadable", "other_address", "wrong_icrc"):
                self.assertEqual(sum(one[key] for one in counted), 0, (name, key))
        self.assertIn("by the port of network.roce", self.nodes["b"].output())

    def program_at(self, machine) -> str:
        found = re.search(r"prog/xdp id \d+ name (\w+)|prog/xdp id (\d+)",
                          call("ip", "-n", machine.namespace, "-d", "link", "show", "dev", INTERFACE))
        return (found[1] or found[2]) if found else ""

    def pings(self, source: str, target: str, count: int = 3) -> None:
        """The kernels answer echo requests of each other."""
        with entered(self.machine(source).namespace):
            echo = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        with echo:
            echo.settimeout(5)
            for number in range(count):
                words = (ECHO_REQUEST << 8, os.getpid() & 0xffff, number)
                checksum = sum(words)
                checksum = ~((checksum & 0xffff) + (checksum >> 16)) & 0xffff
                echo.sendto(struct.pack("!4H", words[0], checksum, *words[1:]), (target, 0))
                while (answer := echo.recv(1500)[20:])[:2] != ECHO_REPLY or answer[4:] != struct.pack("!2H", *words[1:]):
                    pass
                time.sleep(0.02)

    def sends(self, payload: bytes, target: str) -> None:
        """The kernel of "a" gets a UDP packet to RoCE's port, sent by the kernel of "b"."""
        with entered(self.machine("a").namespace):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind((target, ROCE_PORT))
            receiver.settimeout(5)
        with receiver, self.machine("b").socket(socket.SOCK_DGRAM) as sender:
            sender.sendto(payload, (target, ROCE_PORT))
            self.assertEqual(receiver.recv(65536), payload)

    def test_one_interface_serves_the_node_and_the_kernel(self):
        self.chain(address="")  # the control connections have the same
        run = self.long_run()
        self.pings("b", self.machine("a").address, 20)
        self.pings("a", self.machine("b").address, 20)
        self.sends(b"to another address", "10.79.0.1")
        self.sends(bytes(4000), self.machine("a").address)  # in fragments
        run.finish()
        for kind in ("reduce", "broadcast", "allgather"):
            self.checked(kind)
        self.uses_ports("10.77.0.{}")

    def has_entry(self, machine, target: str, text: str) -> None:
        """The kernel's table shows this text for the target, soon."""
        until = time.monotonic() + TIMEOUT
        while text not in (shown := self.ip(machine, "neigh", "show", "to", target, "dev", INTERFACE)):
            self.assertLess(time.monotonic(), until, shown)
            time.sleep(0.1)

    def kernel_verifies(self, machine, target: str) -> None:
        """An entry that is old, as long as the node uses it."""
        machine.run(["sh", "-c", f"echo 1 >/proc/sys/net/ipv4/neigh/{INTERFACE}/delay_first_probe_time"], check=True)
        self.ip(machine, "neigh", "change", target, "dev", INTERFACE, "nud", "stale")
        self.has_entry(machine, target, "REACHABLE")

    def test_the_kernel_finds_the_next_hop(self):
        """Also when its table is emptied, and by a gateway."""
        self.chain()
        a, b = self.machine("a"), self.machine("b")
        run = self.long_run()
        self.assertIn("lladdr", self.ip(b, "neigh", "show", "to", "10.79.0.1"))
        for _ in range(10):
            for machine in (a, b):
                self.ip(machine, "neigh", "flush", "dev", INTERFACE)
            time.sleep(0.1)
        run.finish()
        self.checked()
        self.has_entry(b, "10.79.0.1", "lladdr")  # the node has the kernel ask again after the last flush
        self.uses_ports("10.79.0.{}")
        self.kernel_verifies(b, "10.79.0.1")
        for name in "ab":
            self.nodes[name].stop()
        for machine, other in ((a, b), (b, a)):
            self.ip(machine, "address", "add", f"10.80.0.{machine.index}/32", "dev", INTERFACE)
            self.ip(machine, "route", "add", f"10.80.0.{other.index}", "via", f"10.79.0.{other.index}", "dev", INTERFACE)
            self.ip(machine, "neigh", "flush", "dev", INTERFACE)
        self.chain(address="10.80.0.{}")
        self.checked()
        self.uses_ports("10.80.0.{}")
        self.assertNotIn("10.80", self.ip(b, "neigh", "show"))
        self.assertIn("10.79.0.1 lladdr", self.ip(b, "neigh", "show", "dev", INTERFACE).replace(f"dev {INTERFACE} ", ""))

    def test_ipv6(self):
        self.chain(address="fd79::{}")
        self.checked()
        self.uses_ports("fd79::{}")

    def test_an_interface_that_goes_down_and_up(self):
        self.chain(more=PATIENT)
        run = self.long_run()
        self.ip(self.machine("a"), "link", "set", INTERFACE, "down")
        time.sleep(0.5)
        self.ip(self.machine("a"), "link", "set", INTERFACE, "up")
        run.finish()
        self.checked()
        self.uses_ports("10.79.0.{}")

    def test_after_a_node_ends_the_kernel_has_the_interface(self):
        self.chain()
        a = self.machine("a")
        self.assertEqual(self.program_at(a), PROGRAM)
        for name in "ab":
            self.nodes[name].kill()
        self.assertEqual(self.program_at(a), PROGRAM)  # and without a socket it passes all
        self.pings("b", a.address)
        self.sends(b"to the address of the port", "10.79.0.1")
        with a.socket(socket.SOCK_STREAM) as listener, self.machine("b").socket(socket.SOCK_STREAM) as client:
            listener.bind((a.address, 0))
            listener.listen()
            client.settimeout(5)
            client.connect(listener.getsockname())
        self.chain()
        self.checked()
        self.uses_ports("10.79.0.{}")
        self.nodes["b"].stop()
        self.nodes["a"].stop()
        self.assertEqual(self.program_at(a), "")
        self.pings("b", a.address)

    def test_a_port_that_is_alone_starts_again_after_kill(self):
        for _ in range(2):
            self.start_on_port("a", address="10.79.9.{}/24")
            self.nodes["a"].kill()
            self.assertTrue(self.program_at(self.machine("a")))

    def check_upper_interface(self, address: str) -> None:
        """The driver of "blue", which is above eth0, has no XDP. So the kernel runs the program after its own work."""
        for machine in self.network.machines:
            self.ip(machine, "address", "add", f"{address.format(machine.index)}/24", "dev", "blue")
            self.ip(machine, "link", "set", "blue", "up")
        self.chain(address="", device="net_af_xdp0,iface=blue")
        self.checked()
        self.uses_ports(address)

    def test_an_interface_of_a_vlan(self):
        for machine in self.network.machines:
            try:
                self.ip(machine, "link", "add", "link", INTERFACE, "name", "blue", "type", "vlan", "id", "7")
            except NetworkError as error:
                self.skipTest(f"this kernel has no VLANs: {error}")
        self.check_upper_interface("10.87.0.{}")

    def test_a_bridge(self):
        for machine in self.network.machines:
            self.ip(machine, "link", "add", "blue", "type", "bridge")
            self.ip(machine, "link", "set", INTERFACE, "master", "blue")
            self.ip(machine, "address", "flush", "dev", INTERFACE)
        self.check_upper_interface("10.77.0.{}")

    def refuses(self, text: str, name: str = "b", **how) -> None:
        with self.assertRaisesRegex(Exception, text):
            self.start_on_port(name, **how)

    def test_what_is_not_possible_is_refused(self):
        b = self.machine("b")
        self.start_on_port("a")
        self.refuses("interface eth9 of network.roce is not there", device="net_af_xdp0,iface=eth9", address="")
        self.refuses("interface eth9 of network.roce is not there: .ip link", device="net_af_xdp0,iface=eth9",
                     address="10.9.0.{}/24")
        self.refuses("tallyd-nics has it; start that program", program=self.TALLYD)
        self.refuses("not permitted; run tallyd-nics as root, or give it CAP_NET_ADMIN",
                     as_user=("setpriv", "--bounding-set", "-all"))
        self.refuses("not permitted; run tallyd-nics|memory that the process may lock",
                     as_user=("prlimit", "--memlock=65536", "setpriv", "--bounding-set", "-all,+net_admin,+net_raw,+bpf"))
        self.refuses("interface eth0 is in use by another node", name="a")
        self.ip(self.machine("a"), "link", "property", "add", "dev", INTERFACE, "altname", "lan0")
        self.refuses("interface lan0 is in use by another node", name="a", device="net_af_xdp0,iface=lan0",
                     address="10.79.9.{}/24")
        self.assertEqual(self.program_at(self.machine("a")), PROGRAM)
        self.ip(b, "address", "flush", "dev", INTERFACE)
        self.refuses("interface eth0 of network.roce is not there, or has no address of the kernel", address="")

    def test_the_program_of_another_project_stays(self):
        a, b = self.machine("a"), self.machine("b")
        self.start_on_port("a")
        number = re.search(r"prog/xdp id (\d+)", self.ip(a, "-d", "link", "show", "dev", INTERFACE))[1]
        self.assertTrue(number)
        foreign = self.place / "pass.o"
        source = 'int other(void* c) __attribute__((section("xdp"))); int other(void* c) { return 2; }'
        subprocess.run(["clang", "-target", "bpf", "-O2", "-x", "c", "-", "-c", "-o", foreign], input=source, text=True,
                       check=True)
        self.ip(b, "link", "set", "dev", INTERFACE, "xdp", "obj", str(foreign), "sec", "xdp")
        for address in ("10.79.0.{}", "10.79.9.{}/24"):  # beside the kernel, and alone
            self.refuses("interface eth0 has an XDP program already .other, number .*ip link set dev eth0 xdp off",
                         address=address)
            self.assertEqual(self.program_at(b), "other")
        self.ip(b, "link", "set", "dev", INTERFACE, "xdp", "off")
        self.start_on_port("b")


if __name__ == "__main__":
    if why := available():
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    if not os.environ.get("TALLYD_XDP"):
        print("skipped: tallyd-nics has no AF_XDP beside the kernel (build options nics and xdp)")
        sys.exit(SKIPPED)
    run_tests()
