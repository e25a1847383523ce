#!/usr/bin/env python3
"""Ranks that are lost while a job runs: the others go on without them, in the same step (on_rank_loss = "finish").

usage: finish_test.py TALLYD TALLYCTL TALLY_PERF FAULT_RANK [TEST...]
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from nodes import run_tests  # noqa: E402
from processes import TIMEOUT, Process  # noqa: E402
from repaired_job import RepairedJob  # noqa: E402

TIER = os.environ.get("TALLY_TEST_TIER", "default")
SLOWER = 4 if os.environ.get("TALLY_SANITIZER") else 1  # the bars are for programs without a sanitizer
LOSSES = {"soak": 200, "fast": 2}.get(TIER, 6)
RANKS = 8
ELEMENTS = 1 << 18
COUNT = 1 << 14
TAG = 7


class Finish(RepairedJob):
    flags = ()  # of all nodes

    def listening(self, name: str) -> list:
        return [*super().listening(name), *self.flags]

    def start_rank(self, rank: int, ranks: int, elements: int) -> Process:
        return super().start_rank(rank, ranks, elements, 30_000, "finish", self.quorum)

    def job(self, ranks: int = RANKS, quorum: int = 0, **more) -> list:
        self.quorum = quorum
        return self.nodes_and_ranks(ranks=ranks, elements=2 * ELEMENTS, **more)

    def changes(self, ranks: list) -> list:
        """The lines of all ranks up to the end of their rounds, which must be the same: who is left out, from which round
        on, and how the rounds end."""
        lines = []
        for rank in ranks:
            mine = [rank.line(TIMEOUT)]
            while not mine[-1].startswith(("looped", "with")):
                self.assertTrue(mine[-1].startswith("contributors "), mine[-1])
                mine.append(rank.line(TIMEOUT))
            self.assertTrue(mine[-1].endswith(" wrong 0"), mine[-1])
            lines.append(mine)
        for mine in lines[1:]:
            self.assertEqual(mine, lines[0], "one set of contributors for each round")
        return lines[0]

    @staticmethod
    def loop_with(ranks: list, contributors: int, rounds: int = 100, count: int = COUNT, where: str = "average") -> None:
        """Each rank sums until 100 rounds (`rounds`) have had this number of contributors."""
        for rank in ranks:
            rank.send(f"with {contributors} {TAG} {count} {rounds} {where}")

    def go_on(self, left: list, without: str) -> None:
        """Ranks under load have lost others."""
        self.assertRegex(self.changes(left)[-2], rf"^contributors {len(left)} from round \d+ without {without}$")

    def limit_operations(self, ranks: list) -> None:
        """Their operations have a deadline of two seconds from now on."""
        for rank in ranks:
            rank.send("deadline 2000")
            self.assertEqual(rank.line(), "deadline")

    def longest(self, ranks: list) -> int:
        for rank in ranks:
            rank.send("worst")
        return max(int(rank.line().split()[1]) for rank in ranks)

    def kill_and_go_on(self, ranks: list, lost: list, where: str = "average") -> None:
        """Kills ranks under load."""
        left = [rank for number, rank in enumerate(ranks) if rank and number not in lost]
        self.loop_with([rank for rank in ranks if rank], len(left), where=where)
        time.sleep(0.05)
        for number in lost:
            ranks[number].kill()
            ranks[number] = None
        self.go_on(left, self.named([number for number, rank in enumerate(ranks) if rank is None]))

    @staticmethod
    def named(ranks: list) -> str:
        if len(ranks) == 1:
            return f"rank {ranks[0]}"
        return f"ranks {ranks[0]} and {ranks[1]}" if len(ranks) == 2 else \
            f"ranks {ranks[0]}, {ranks[1]} and {len(ranks) - 2} more"

    # -- tests ---------------------------------------------------------------------------------------

    def test_killed_ranks_return(self):
        """A rank is killed, the others go on, and another process of it returns, all of it under load."""
        ranks = self.job()
        stalls = []
        for loss in range(LOSSES):
            lost = (3 * loss + 1) % RANKS
            left = [rank for number, rank in enumerate(ranks) if number != lost]
            self.loop_with(ranks, RANKS - 1)
            for rank in left:
                rank.send("worst")
            self.loop_with(left, RANKS)
            time.sleep(0.05 + loss % 5 * 0.03)
            ranks[lost].kill()
            change, _ = self.changes(left)  # it was left out once
            self.assertRegex(change, rf"^contributors {RANKS - 1} from round \d+ without rank {lost}$")
            stalls.append(max(int(rank.line().split()[1]) for rank in left))
            ranks[lost] = self.start_rank(lost, RANKS, 2 * ELEMENTS)
            self.assertEqual(ranks[lost].line(), "ready")
            self.loop_with([ranks[lost]], RANKS)
            back, end = self.changes(left)
            self.assertRegex(back, rf"^contributors {RANKS} from round \d+ $")
            self.assertEqual(ranks[lost].line(), end)
            stalls.append(self.longest(left))
        stalls.sort()
        print(f"longest rounds of {LOSSES} losses and returns: median {stalls[LOSSES]} ms, at most {stalls[-1]} ms",
              flush=True)
        self.assertLess(stalls[-1], SLOWER * 2000)
        self.end(ranks)

    def test_ranks_that_are_lost_one_after_the_other(self):
        ranks = self.job()
        for lost in ([2], [5], [0], [1, 7]):
            self.kill_and_go_on(ranks, lost)
        shown = json.loads(self.ctl("--json", "jobs", "--cluster"))
        self.assertEqual(shown[0]["left_out"], [0, 1, 2, 5, 7])
        self.end([rank for rank in ranks if rank])

    def test_over_tcp(self):
        ranks = self.job(ranks=4, network=True)
        self.kill_and_go_on(ranks, [2])
        self.kill_and_go_on(ranks, [0], where="out")
        self.end([rank for rank in ranks if rank])

    def test_in_place(self):
        ranks = self.job(ranks=4)
        self.kill_and_go_on(ranks, [3], where="in place")
        self.end([rank for rank in ranks if rank])

    def test_small_operations(self):
        """Over TCP, where other jobs have eager results."""
        ranks = self.job(ranks=4, network=True)
        self.loop_with(ranks, 3, count=16, where="out")
        time.sleep(0.05)
        ranks.pop(1).kill()
        self.go_on(ranks, "rank 1")
        self.end(ranks)

    def test_a_node_is_lost_too(self):
        ranks = self.job(ranks=4)
        self.loop_with(ranks, 3, where="out")
        time.sleep(0.05)
        ranks.pop(2).kill()
        self.lose("b")
        self.go_on(ranks, "rank 2")
        self.loop(ranks, COUNT, 20, "out", TAG)  # the first rounds may have ended before b was lost
        self.assertEqual(self.changes(ranks), ["looped 20 wrong 0"])
        self.end(ranks)

    def test_in_deeper_trees(self):
        """Rank 2 is the only one of its machine, so that its tree loses a leaf; rank 1 shares one."""
        tree = {"w0": "b", "w1": "b", "w2": "c", "b": "d", "c": "d", "d": ""}
        plan = self.tree_plan(["w0", "w1", "w2"], ["b", "c", "d"], [tree])
        ranks = self.job(ranks=3, plan=plan)
        self.kill_and_go_on(ranks, [1])
        self.kill_and_go_on(ranks, [2])
        self.end([rank for rank in ranks if rank])

    def test_operations_that_need_the_rank(self):
        ranks = self.job(ranks=3)
        self.kill_and_go_on(ranks, [1])
        left = [rank for rank in ranks if rank]
        reduce, broadcast, reduce_scatter, all_gather = 2, 3, 4, 5
        for tag, kind in enumerate((reduce, broadcast, reduce_scatter, all_gather), 100):
            for rank in left:
                rank.send(f"announce {tag} 1024 {kind} 0 0 1")
                self.assertEqual(rank.line(), "posted")
            for rank in left:
                rank.send("wait")
                self.assertRegex(rank.line(), rf"^{tag} peer lost 1 0 \|")
        for rank in left:
            rank.send(f"announce 200 1024 {reduce} 0 0 0")
            self.assertEqual(rank.line(), "posted")
        for rank in left:
            rank.send("wait")
            self.assertRegex(rank.line(), r"^200 ok ")
        self.end(left)

    def test_a_late_rank_is_left_out(self):
        """It is stopped, so its connections live. When it goes on, its session is over."""
        ranks = self.job(ranks=4)
        self.loop(ranks, COUNT, 20, "average", TAG)
        self.changes(ranks)
        late = ranks.pop(1)
        late.pause()
        self.limit_operations(ranks)
        self.loop(ranks, COUNT, 20, "average", TAG)
        self.assertRegex(self.changes(ranks)[-2], r"^contributors 3 from round 20 without rank 1$")
        late.resume()
        late.send(f"loop {TAG} {COUNT} 20 average")
        self.assertNotRegex(late.line(), "looped|ok")
        late.kill()
        self.end(ranks)

    def test_a_rank_that_is_alone_with_a_tag_does_not_blame_the_others(self):
        ranks = self.job(ranks=3)
        self.limit_operations(ranks)
        ranks[0].send(f"sum {TAG + 1} {COUNT} out")
        self.assertEqual(ranks[0].line(), "posted")
        ranks[0].send("wait")
        self.assertRegex(ranks[0].line(), rf"^{TAG + 1} deadline 1 0 \| .*waiting for rank 1.* and 1 more")
        self.loop(ranks, COUNT, 20, "out", TAG)
        self.assertEqual(self.changes(ranks), ["looped 20 wrong 0"])
        self.end(ranks)

    def stop_after_announcement(self) -> tuple:
        """Rank 1 is stopped after its announcement. The nodes pull its contribution over TCP, and wait. Returns it and the
        others, which have announced too and wait for the completion."""
        ranks = self.job(ranks=4, network=True)
        stopped = ranks.pop(1)
        self.limit_operations((stopped, *ranks))
        stopped.send(f"sum {TAG} {ELEMENTS} out")
        self.assertEqual(stopped.line(), "posted")
        time.sleep(0.5)  # until the nodes have the announcement
        stopped.pause()
        for rank in ranks:
            rank.send(f"sum {TAG} {ELEMENTS} out")
            self.assertEqual(rank.line(), "posted")
            rank.send("wait")
        return stopped, ranks

    def test_a_rank_that_announces_and_gives_no_bytes_is_left_out(self):
        stopped, ranks = self.stop_after_announcement()
        for rank in ranks:
            self.assertEqual(rank.line(), f"{TAG} ok wrong 0 contributors 3 without rank 1")
        stopped.resume()
        stopped.send("wait")
        self.assertNotRegex(stopped.line(), " ok ")
        stopped.kill()
        self.end(ranks)

    def test_a_rank_that_gives_its_bytes_after_the_deadline_keeps_its_place(self):
        stopped, ranks = self.stop_after_announcement()
        time.sleep(2.5)
        stopped.resume()
        stopped.send("wait")
        for rank in (stopped, *ranks):
            self.assertEqual(rank.line(), f"{TAG} ok wrong 0")
        self.end([stopped, *ranks])

    def test_a_rank_that_does_not_answer_a_repair_is_left_out(self):
        """It is stopped when another rank dies, so that its operation waits for the repair."""
        self.flags = ("--fault-timeout", "10")  # ranks must answer in half of this time
        ranks = self.job(ranks=4)
        self.loop_with(ranks, 2)
        time.sleep(0.05)
        ranks[1].pause()
        ranks[2].kill()
        left = [ranks[0], ranks[3]]
        self.go_on(left, "ranks 1 and 2")
        self.assertLess(self.longest(left), 5000 + SLOWER * 2000)
        ranks[1].resume()
        self.assertNotRegex(ranks[1].line(), "^(with|contributors) | ok ")
        ranks[1].kill()
        self.end(left)

    def test_a_rank_that_closes_its_session(self):
        ranks = self.job(ranks=4)
        self.loop(ranks, COUNT, 20, "average", TAG)
        self.changes(ranks)
        closed = ranks.pop(3)
        closed.send("close")
        self.assertEqual(closed.line(), "closed")
        closed.send("exit")
        self.loop(ranks, COUNT, 20, "average", TAG)
        self.assertRegex(self.changes(ranks)[-2], r"^contributors 3 from round 20 without rank 3$")
        self.end(ranks)

    def test_a_job_below_its_quorum_ends(self):
        ranks = self.job(ranks=4, quorum=3)
        self.kill_and_go_on(ranks, [3])
        left = ranks[:3]
        self.loop(left, COUNT, 100_000, "average", TAG)
        time.sleep(0.05)
        ranks[0].kill()
        for rank in left[1:]:
            line = rank.line()
            while line.startswith("contributors"):
                line = rank.line()
            self.assertRegex(line, f"^{TAG} peer lost 0 ")


if __name__ == "__main__":
    RepairedJob.FAULT_RANK = sys.argv.pop(4)
    run_tests()
