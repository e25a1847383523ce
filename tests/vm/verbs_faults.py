#!/usr/bin/env python3
"""Transport verbs between the machines of a guest: the cases of tests/net/faults.py, and how a transport is chosen.
Runs in the guest (verbs_test.py starts it there), with four machines in the layout for netem.

usage: verbs_faults.py TALLYD FAULT_RANK TALLYCTL [CASE...]; $TALLY_TEST_TIER: fast, default, soak
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "net"))
import faults  # noqa: E402
from machines import Guest  # noqa: E402

faults.REPETITIONS["soak"] = 5


def refusal(world: faults.World, transport: str) -> str:
    """What a rank says that must have this transport, and cannot."""
    done = subprocess.run([world.rank_program, f"tcp:{world.site.address}", "refused", "0", "1", "1000", "2000"],
                          env={**os.environ, "TALLY_TRANSPORT": transport}, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=faults.TIMEOUT)
    if not done.stdout.startswith("refused "):
        raise faults.Failed(f"a session of {transport}: {done.stdout!r}")
    return done.stdout


def what_cannot_be_had_says_why(world: faults.World) -> None:
    machine = world.site.machine(2)
    for transport, why in (("verbs:rxe9", "there is no rxe9, but rxe1"), ("verbs:rxe2:2", "has 1 ports"),
                           ("verbs:rxe2:1:200", "has no GID 200"), ("shm", "use unix:/path"),
                           ("rdma", "is not one of shm, verbs, verbs:DEVICE, fabric")):
        if why not in (text := refusal(world, transport)):
            raise faults.Failed(f"{transport}: {text!r} and not {why!r}")
    for broken, mended, why in (
            (machine.unplug, machine.plug, "rxe2 port 1 is not active (is its link up?"),
            (lambda: machine.lose(1), lambda: machine.lose(0), "no packets get from rxe2 (10.9.0.2) to the node's")):
        broken()
        try:
            if why not in (text := refusal(world, "verbs:rxe2")):
                raise faults.Failed(f"without a way: {text!r} and not {why!r}")
        finally:
            mended()


def a_switch_that_passes_less_is_found(world: faults.World) -> None:
    """It swallows what is longer than its MTU; the node can see to it that nothing is."""
    machine, usual = world.site.machine(2), world.site.config
    machine.pass_at_most(1500)
    try:
        why = "(tried with 4096 bytes; "
        if why not in (text := refusal(world, "verbs:rxe2")):
            raise faults.Failed(f"behind a switch with MTU 1500: {text!r} and not {why!r}")
        world.site.config = usual + "mtu = 1024\n"
        world.restart_node()
        for rank in (ranks := world.job()):
            rank.send("loop 7 100000 3")
        for rank in ranks:
            rank.expect("^looped 3 wrong 0$", timeout=120)
            rank.end()
    finally:
        world.site.config = usual
        machine.pass_at_most(9000)
        world.restart_node()


def gids_of_ipv6_serve(world: faults.World) -> None:
    """At both ends the link-local one, which is the first of every device."""
    ranks, flags = [world.site.machine(2 + rank) for rank in range(2)], world.site.node_flags
    world.site.node_flags = ["--verbs", "on", "--device", "rxe1:1:0"]
    world.restart_node()
    try:
        for machine in ranks:
            machine.transport = f"verbs:rxe{machine.index}:1:0"
        for rank in (started := world.job()):
            rank.send("loop 7 100000 3")
        for rank in started:
            rank.expect("^looped 3 wrong 0$", timeout=120)
            rank.end()
    finally:
        for machine in ranks:
            machine.transport = f"verbs:rxe{machine.index}"
        world.site.node_flags = flags
        world.restart_node()


def packets_come_late_and_out_of_order(world: faults.World) -> None:
    """By turns, in order (a rate keeps it), and now and then one after those behind it."""
    machine = world.site.machine(2)
    for how in (("delay", "20ms", "10ms", "rate", "1gbit"), ("delay", "2ms", "reorder", "99.8%")):
        machine.disturb(*how)
        try:
            ranks = world.job()
            for rank in ranks:
                rank.send(f"loop 4 {world.site.elements // 3} 10")
            for rank in ranks:
                rank.expect("^looped 10 wrong 0$", timeout=120)
                rank.end()
        finally:
            machine.disturb()


def who_has_the_choice_takes_verbs(world: faults.World) -> None:
    """And fabric where packets of RDMA do not get through."""
    ranks = [world.site.machine(2 + rank) for rank in range(2)]
    for machine in ranks:
        machine.transport = ""
    try:
        for connected, transport in ((True, "verbs"), (False, "fabric")):
            if not connected:
                world.site.machine(1).unplug()
            started = world.job()
            for rank in started:
                rank.send("loop 7 1000 3")
            for rank in started:
                rank.expect("^looped 3 wrong 0$", timeout=120)
                rank.send("transport")
                rank.expect(f"^{transport}$")
                rank.end()
    finally:
        world.site.machine(1).plug()
        for index, machine in enumerate(ranks):
            machine.transport = f"verbs:rxe{2 + index}"


faults.CASES += [what_cannot_be_had_says_why, a_switch_that_passes_less_is_found, gids_of_ipv6_serve,
                 packets_come_late_and_out_of_order, who_has_the_choice_takes_verbs]

if __name__ == "__main__":
    sys.exit(faults.main(Guest()))
