#!/usr/bin/env python3
"""Ranks that are lost while a job runs: the others go on without them, in the same step (on_rank_loss = "finish").

usage: finish_test.py TALLYD TALLYCTL TALLY_PERF FAULT_RANK [TEST...]
"""

import json
import os
import re
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
        """The lines of all ranks up to "looped", which must be the same: who is left out, from which round on."""
        lines = []
        for rank in ranks:
            mine = []
            while not (line := rank.line(TIMEOUT)).startswith(("looped", "until")):
                self.assertTrue(line.startswith("contributors "), line)
                mine.append(line)
            self.assertTrue(line.endswith("wrong 0"), line)
            lines.append(mine)
        for mine in lines[1:]:
            self.assertEqual(mine, lines[0], "one set of contributors for each round")
        return lines[0]

    def limit_operations(self, ranks: list) -> None:
        """Their operations have a deadline of one second from now on."""
        for rank in ranks:
            rank.send("deadline 1000")
            self.assertEqual(rank.line(), "deadline")

    def longest(self, ranks: list) -> int:
        for rank in ranks:
            rank.send("worst")
        return max(int(rank.line().split()[1]) for rank in ranks)

    def kill_and_go_on(self, ranks: list, lost: list, rounds: int = 400, where: str = "average") -> int:
        """Kills ranks under load. Returns the longest round in milliseconds."""
        left = [rank for number, rank in enumerate(ranks) if rank and number not in lost]
        self.loop([rank for rank in ranks if rank], COUNT, rounds, where, TAG)
        time.sleep(0.05)
        for number in lost:
            ranks[number].kill()
            ranks[number] = None
        lines = self.changes(left)
        gone = [number for number, rank in enumerate(ranks) if rank is None]
        self.assertRegex(lines[-1], rf"^contributors {len(left)} from round \d+ {self.without(gone)}$")
        return self.longest(left)

    @staticmethod
    def without(ranks: list) -> str:
        if len(ranks) == 1:
            return f"without rank {ranks[0]}"
        return f"without ranks {ranks[0]} and {ranks[1]}" if len(ranks) == 2 else \
            f"without ranks {ranks[0]}, {ranks[1]} and {len(ranks) - 2} more"

    # -- tests ---------------------------------------------------------------------------------------

    def test_killed_ranks_return(self):
        """A rank is killed, the others go on, and another process of it returns, all of it under load."""
        ranks = self.job()
        stalls, rounds, last = [], 3000, -1
        for loss in range(LOSSES):
            lost = (3 * loss + 1) % RANKS
            last += rounds
            self.loop(ranks, COUNT, rounds, "average", TAG)
            time.sleep(0.05 + loss % 5 * 0.03)
            ranks[lost].kill()
            left = [rank for number, rank in enumerate(ranks) if number != lost]
            ranks[lost] = self.start_rank(lost, RANKS, 2 * ELEMENTS)
            self.assertEqual(ranks[lost].line(), "ready")
            ranks[lost].send(f"until {TAG} {COUNT} {last} average")
            lines = self.changes(left)
            self.assertEqual(len(lines), 2, f"rank {lost} was left out once, and returned: {lines}")
            self.assertRegex(lines[0], rf"^contributors {RANKS - 1} from round \d+ without rank {lost}$")
            back = re.fullmatch(rf"contributors {RANKS} from round (\d+) ?", lines[1])
            self.assertTrue(back, lines[1])
            self.assertEqual(ranks[lost].line(), f"until {last} from {back[1]} wrong 0")
            stalls.append(self.longest(left))
        stalls.sort()
        print(f"longest rounds of {LOSSES} losses: median {stalls[LOSSES // 2]} ms, at most {stalls[-1]} ms",
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
        self.loop(ranks, 16, 20_000, "out", TAG)
        time.sleep(0.05)
        ranks.pop(1).kill()
        self.assertRegex(self.changes(ranks)[-1], r"^contributors 3 from round \d+ without rank 1$")
        self.end(ranks)

    def test_a_node_is_lost_too(self):
        ranks = self.job(ranks=4)
        self.loop(ranks, COUNT, 400, "out", TAG)
        time.sleep(0.05)
        ranks.pop(2).kill()
        self.lose("b")
        self.assertRegex(self.changes(ranks)[-1], r"^contributors 3 from round \d+ without rank 2$")
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
        self.assertRegex(self.changes(ranks)[-1], r"^contributors 3 from round 20 without rank 1$")
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
        self.assertEqual(self.changes(ranks), [])
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
        self.loop(ranks, COUNT, 400, "average", TAG)
        time.sleep(0.05)
        ranks[1].pause()
        ranks[2].kill()
        left = [ranks[0], ranks[3]]
        self.assertRegex(self.changes(left)[-1], r"^contributors 2 from round \d+ without ranks 1 and 2$")
        self.assertLess(self.longest(left), 5000 + SLOWER * 2000)
        ranks[1].resume()
        self.assertNotRegex(ranks[1].line(), "looped|ok")
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
        self.assertRegex(self.changes(ranks)[-1], r"^contributors 3 from round 20 without rank 3$")
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
