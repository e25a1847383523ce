#!/usr/bin/env python3
"""A node without an RDMA device between machines with one: the cases of tests/net/faults.py over transport roce. Runs in
the guest (roce_test.py starts it there), with four machines in the layout for netem and the node's cable of
node_port.sh. Machine 1 is the node's; its RDMA device is not used.

usage: roce_faults.py TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "net"))
import faults  # noqa: E402
from machines import Guest  # noqa: E402

faults.REPETITIONS["soak"] = 5
LINK, PORT, NODE = "n0", "q0", 1  # both ends of the node's cable; DPDK has LINK


class RoceGuest(Guest):
    """A node with two shards: the kernel divides the packets among their queues."""

    config = (f'[network]\nroce = "net_af_packet0,iface={LINK}"\nroce_address = "10.9.0.100/24"\n'
              'fabric = "off"\nack_timeout = 16\n')
    node_flags = []

    def __init__(self) -> None:
        super().__init__()
        node = self.machine(NODE)
        node.link, node.port = LINK, PORT


def packets_of_the_node_are_lost(world: faults.World) -> None:
    """Its requests and its answers."""
    world.site.machine(NODE).lose(world.site.loss)
    try:
        for rank in (ranks := world.job()):
            rank.send(f"loop 4 {world.site.elements // 3} 10")
        for rank in ranks:
            rank.expect("^looped 10 wrong 0$", timeout=120)
            rank.end()
    finally:
        world.site.machine(NODE).lose(0)


def packets_are_lost_doubled_and_late(world: faults.World) -> None:
    """Those of a rank, then those of the node, at the rates of bad networks."""
    for machine in (world.site.machine(2), world.site.machine(NODE)):
        for how in (("loss", "1%"), ("duplicate", "1%"), ("delay", "2ms", "reorder", "99%"), ("corrupt", "1%")):
            machine.disturb(*how)
            try:
                for rank in (ranks := world.job()):
                    rank.send(f"loop 7 {world.site.elements // 10} 5")
                for rank in ranks:
                    rank.expect("^looped 5 wrong 0$", timeout=120)
                    rank.end()
            finally:
                machine.disturb()


faults.CASES += [packets_of_the_node_are_lost, packets_are_lost_doubled_and_late]
if os.environ.get("TALLY_TEST_TIER", "default") != "soak":  # vm-verbs runs the others; they are the same to clients
    faults.CASES[:] = [faults.a_rank_is_killed, faults.the_node_is_killed, faults.a_cable_is_pulled,
                       packets_are_lost_doubled_and_late]

if __name__ == "__main__":
    sys.exit(faults.main(RoceGuest()))
