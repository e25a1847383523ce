#!/usr/bin/env python3
"""Random faults at a node under load, from a seed.

usage: random_faults.py TALLYD FAULT_RANK FAULT_HOSTILE TALLY_PERF [--seed S] [--faults N] [--only I]

A node serves two jobs that verify every element they get, a tally-perf that does so too, and a job
that the faults are done to: ranks and node are killed, stopped, made hostile, at random moments and
at random steps of an operation (base/debug_steps.h). After each fault: all ranks have an answer
in time, no element was wrong, nobody else was disturbed, and the node holds what it held before.
Fault I of seed S is the same whatever came before it; its timing is as random as the machine.
"""

import argparse
import collections
import os
import random
import re
import signal
import subprocess
import sys
import time

from random_world import Victims, World, Wrong
from processes import Failed, Hang, Process, end_all, program

FAULTS_OF_TIER = {"fast": 8, "default": 30, "soak": 1000}
CLIENT_STEPS = ["before-notice", "notice-sent", "woken", "completion-taken"]
NODE_STEPS = ["notice-taken", "ready", "pulled", "storing", "summed", "placed",
              "completion-queued", "completion-sent"]


# -- the faults: each leaves the world as it found it -----------------------------------------------


def pause(dice: random.Random, longest: float) -> None:
    time.sleep(dice.uniform(0, longest))


def kill_rank(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    victims.loop()
    pause(dice, 0.05)
    victims.victim.signal(signal.SIGKILL)
    victims.expect_lost(f"peer lost {victims.who}")
    victims.end()


def kill_all_ranks(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    victims.loop()
    pause(dice, 0.05)
    for rank in dice.sample(victims.ranks, victims.count):
        rank.signal(signal.SIGKILL)
    victims.end()


def stop_for_moments(victims: Victims, process: Process, dice: random.Random, times: int,
                     running: float, stopped: float) -> None:
    """Stops a process again and again while the victims' job runs: all it may cost is time."""
    rounds = 60
    victims.loop(rounds)
    for _ in range(times):
        pause(dice, running)
        process.pause()
        pause(dice, stopped)
        process.resume()
    for rank in victims.ranks:
        rank.expect(f"^looped {rounds} wrong 0$")
    victims.end()


def stop_rank(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    stop_for_moments(victims, victims.victim, dice, times=3, running=0.02, stopped=0.1)


def stop_rank_past_deadline(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    victims.send("deadline 300")
    for rank in victims.ranks:
        rank.expect("^deadline$")
    victims.loop()
    pause(dice, 0.05)
    victims.victim.pause()
    victims.expect_lost(f"deadline {victims.who}")
    victims.victim.resume()
    line = victims.victim.line()
    if f"deadline {victims.who}" not in line:
        raise Wrong("disturbed", line)
    victims.end()


def rank_at_step(world: World, dice: random.Random) -> None:
    action = dice.choice(["kill", "stop"])
    step = f"client.{dice.choice(CLIENT_STEPS)}:{action}:{dice.randint(1, 40)}"
    victims = Victims(world, dice, step).ready()
    rounds = 200
    victims.loop(rounds)
    if action == "kill":
        # "woken" needs a sleep each time: it may never come to the last.
        victims.expect_lost(f"peer lost {victims.who}", "looped")
        return victims.end()
    deadline = time.monotonic() + 5
    while victims.victim.poll() is None and time.monotonic() < deadline:
        if victims.victim.is_paused():
            pause(dice, 0.1)
            break
        if victims.victim.has_line():
            break
        time.sleep(0.005)
    victims.victim.resume()
    for rank in victims.ranks:
        rank.expect(f"^looped {rounds} wrong 0$")
    return victims.end()


def rank_ends(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    victims.send(f"sum 5 {victims.elements}")
    for rank in victims.ranks:
        rank.expect("^posted$")
    victims.send(dice.choice(["exit", "abort", "exec", "close"]), [victims.victim])
    victims.send("wait", victims.others)
    victims.expect_lost(f"peer lost {victims.who}", f"peer left {victims.who}",
                        f"cancelled {victims.who}", "ok wrong 0")
    victims.end()


def rank_dies_before_its_child(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    victims.send("fork-live", [victims.victim])
    child = int(victims.victim.line().split()[1])
    victims.loop()
    pause(dice, 0.05)
    victims.victim.signal(signal.SIGKILL)
    try:
        victims.expect_lost(f"peer lost {victims.who}")
    finally:
        os.kill(child, signal.SIGKILL)
    victims.end()


def hostile_rank(world: World, dice: random.Random) -> None:
    attacks = subprocess.run([world.programs.fault_hostile, "--list"], check=True, text=True,
                             capture_output=True).stdout.split()
    attack = dice.choice(attacks)
    fellow = world.rank(0, 2, "victims")
    fellow.expect("^ready$")
    fellow.send("deadline 300")
    fellow.expect("^deadline$")
    seed = dice.randrange(1 << 32)
    hostile = [Process([world.programs.fault_hostile, attack, world.address, "victims", 1, 2, seed]),
               Process([world.programs.fault_hostile, attack, world.address, "lonely", 0, 1, seed])]
    for one in hostile:
        one.expect("^attacking$")
    fellow.send(f"loop 5 {dice.choice([10, 50_000, 500_000])} 3")
    pause(dice, 0.3)
    fellow.line()  # something, in time
    if dice.random() < 0.5:
        for one in hostile:
            one.signal(signal.SIGKILL)
    for one in [fellow, *hostile]:
        one.end()


def pause_node(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    stop_for_moments(victims, world.node, dice, times=2, running=0.03, stopped=0.15)


def end_node(world: World, dice: random.Random) -> None:
    victims = Victims(world, dice).ready()
    victims.loop()
    pause(dice, 0.05)
    number = dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
    world.node.signal(number)
    status = world.node.wait()
    if number == signal.SIGTERM and status != 0:
        raise Wrong("node crashes", f"it ended with {status} after SIGTERM")
    for rank in victims.ranks:
        if "node lost" not in (line := rank.line()):
            raise Wrong("disturbed", line)
    world.start_node()
    victims.end()


def node_at_step(world: World, dice: random.Random) -> None:
    """The next node dies at a step of its own; the one after it is sound again.

    A tally-perf that is still starting would find that node, and take it to its step before the
    victims are there.
    """
    world.perf.end()
    world.node.signal(signal.SIGKILL)
    world.node.wait()
    world.start_node(f"node.{dice.choice(NODE_STEPS)}:kill:{dice.randint(1, 300)}")
    world.bystanders_come_back()
    victims = Victims(world, dice).ready()
    victims.loop()
    world.bystanders_go(1_000_000)
    status = world.node.wait(30)
    if status != -signal.SIGKILL:
        raise Wrong("node crashes", f"it ended with {status}")
    for rank in victims.ranks:
        if "node lost" not in (line := rank.line()):
            raise Wrong("disturbed", line)
    world.start_node()
    victims.end()


# Weight, and whether the node is another one afterwards.
FAULTS = [
    (kill_rank, 14, False), (kill_all_ranks, 5, False), (stop_rank, 10, False),
    (stop_rank_past_deadline, 8, False), (rank_at_step, 20, False), (rank_ends, 10, False),
    (rank_dies_before_its_child, 5, False), (hostile_rank, 20, False), (pause_node, 8, False),
    (end_node, 5, True), (node_at_step, 5, True),
]


def one_fault(world: World, seed: int, index: int) -> str:
    dice = random.Random(f"{seed} {index}")
    fault, _, ends_node = dice.choices(FAULTS, [weight for _, weight, _ in FAULTS])[0]
    rounds = dice.randint(20, 60)
    world.bystanders_go(rounds)
    fault(world, dice)
    if ends_node:
        world.bystanders_come_back()
        world.look_at_perf(node_failed=True)
        world.held = world.holds()
    else:
        world.bystanders_are_well(rounds)
        world.look_at_perf(node_failed=False)
        if world.node.poll() is not None:
            raise Wrong("node crashes", f"it ended with {world.node.poll()}")
        world.check_nothing_left()
    return fault.__name__


def kind_of(failure: Exception) -> str:
    if isinstance(failure, Wrong):
        return failure.kind
    if isinstance(failure, (Hang, BrokenPipeError)):
        return "hangs"
    return "wrong elements" if re.search("wrong [1-9].*expected", str(failure)) else "disturbed"


def run(options: argparse.Namespace, seed: int, indices) -> tuple[collections.Counter, ...]:
    """How many of each fault went well, and of each kind of failure there were."""
    done = collections.Counter()
    failures = collections.Counter()

    def failed(where: str, wrong: Exception) -> None:
        failures[kind_of(wrong)] += 1
        print(f"{where}: {wrong!r}", flush=True)

    world = World(options)
    try:
        for index in indices:
            try:
                done[one_fault(world, seed, index)] += 1
            except (Failed, BrokenPipeError) as wrong:
                failed(f"fault {index} of seed {seed} (alone: --seed {seed} --only {index})", wrong)
                world.abandon()
                world = World(options)
        try:
            world.end()
        except Failed as wrong:
            failed(f"at the end of seed {seed}", wrong)
    finally:
        world.abandon()
    return done, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("tallyd", "fault_rank", "fault_hostile", "tally_perf"):
        parser.add_argument(name, type=program)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TALLY_FAULT_SEED", "0")))
    parser.add_argument("--faults", type=int,
                        default=FAULTS_OF_TIER[os.environ.get("TALLY_TEST_TIER", "default")])
    parser.add_argument("--only", type=int, help="this fault of the seed alone")
    options = parser.parse_args()
    seed = options.seed or int(time.time())
    indices = range(options.faults) if options.only is None else [options.only]
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        done, failures = run(options, seed, indices)
    finally:
        end_all()
    print(f"seed {seed}: {sum(done.values())} of {len(indices)} faults in "
          f"{time.monotonic() - started:.0f} s: " +
          ", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    kinds = ["wrong elements", "hangs", "node crashes", "disturbed", "left behind"]
    print(", ".join(f"{failures[kind]} {kind}" for kind in kinds))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
