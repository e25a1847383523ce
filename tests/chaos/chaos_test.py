#!/usr/bin/env python3
"""Chaos runs without a cluster: a seed determines the schedule, stalls count once and for the right fault, and no wrong
element, failed operation or hang goes unnoticed."""

import time
import unittest
from types import SimpleNamespace

import schedule
import curves
import stalls
from finish import FinishJob, left_out
from job import WORKLOADS, Job, Record
from torch_jobs import TrainingJob

SIZES = {"nodes": 3, "coordinator": 1, "ranks": 4, "etcd": 1}


def planned(seed: int, count: int, network: bool = True, etcd: bool = True) -> list:
    pairs = schedule.possible(list(schedule.KINDS), list(schedule.TARGETS), network, etcd)
    return schedule.plan(seed, count, 5.0, 2.0, pairs, SIZES)


class Schedules(unittest.TestCase):
    def test_a_seed_determines_its_schedule(self):
        self.assertEqual(planned(7, 50), planned(7, 50))
        self.assertNotEqual(planned(7, 50), planned(8, 50))

    def test_a_longer_run_begins_with_the_faults_of_a_shorter_one(self):
        self.assertEqual(planned(7, 50)[:20], planned(7, 20))

    def test_faults_keep_the_interval_and_the_longest_hold(self):
        faults = planned(3, 200)
        self.assertEqual([fault.at for fault in faults], [5.0 * number for number in range(200)])
        self.assertTrue(all(0.5 <= fault.hold <= 2.0 for fault in faults))

    def test_with_a_deadline_some_live_ranks_are_held_longer_than_it(self):
        pairs = schedule.possible(["kill", "stop"], ["ranks", "nodes"], False, True)
        as_before, late = (schedule.plan(4, 200, 5.0, 2.0, pairs, SIZES, seconds) for seconds in (0.0, 10.0))
        longer = [one for one, before in zip(late, as_before) if one != before]
        self.assertTrue(longer)
        self.assertTrue(all((one.kind, one.target) == ("stop", "ranks") and one.hold > 10 for one in longer))

    def test_every_possible_pair_and_victim_occurs(self):
        faults = planned(1, 2000)
        pairs = schedule.possible(list(schedule.KINDS), list(schedule.TARGETS), True, True)
        self.assertEqual({(fault.kind, fault.target) for fault in faults}, set(pairs))
        for target, size in SIZES.items():
            self.assertEqual({fault.victim for fault in faults if fault.target == target}, set(range(size)))

    def test_without_a_network_no_cable_is_cut(self):
        self.assertFalse({fault.kind for fault in planned(1, 500, network=False)} & set(schedule.OF_NETWORK))

    def test_without_etcd_nothing_happens_to_it(self):
        self.assertNotIn("etcd", {fault.target for fault in planned(1, 500, etcd=False)})


class Promises(unittest.TestCase):
    def test_a_job_survives_its_nodes(self):
        for kind in schedule.KINDS:
            self.assertEqual(schedule.promise(kind, "nodes", etcd=False), schedule.SURVIVES, kind)

    def test_a_job_survives_its_coordinator_only_with_a_store(self):
        self.assertEqual(schedule.promise("kill", "coordinator", etcd=True), schedule.SURVIVES)
        self.assertEqual(schedule.promise("kill", "coordinator", etcd=False), schedule.MAY_END)

    def test_a_killed_rank_ends_its_job(self):
        self.assertEqual(schedule.promise("kill", "ranks", etcd=True), schedule.ENDS)

    def test_a_job_that_finishes_survives_its_ranks(self):
        for kind in schedule.KINDS:
            self.assertEqual(schedule.promise(kind, "ranks", etcd=False, finish=True), schedule.SURVIVES, kind)

    def test_a_job_that_finishes_survives_ranks_and_one_node_at_once(self):
        def together(target: str, others: list, finish: bool = True) -> str:
            return schedule.together(schedule.SURVIVES, target, others, finish)
        self.assertEqual(together("ranks", ["ranks", "coordinator"]), schedule.SURVIVES)
        self.assertEqual(together("coordinator", ["ranks"]), schedule.SURVIVES)
        self.assertEqual(together("nodes", ["coordinator"]), schedule.MAY_END)
        self.assertEqual(together("ranks", ["nodes"], finish=False), schedule.MAY_END)
        self.assertEqual(schedule.together(schedule.MAY_END, "ranks", [], True), schedule.MAY_END)


class Stalls(unittest.TestCase):
    def test_the_first_fault_within_a_span_explains_it(self):
        self.assertEqual(stalls.of_faults([10.0, 15.0], [(9.0, 16.5)]), [7.5, 0.0])

    def test_a_span_without_a_fault_belongs_to_the_fault_before(self):
        self.assertEqual(stalls.of_faults([10.0, 15.0], [(11.0, 12.0), (15.5, 15.75)]), [1.0, 0.25])

    def test_a_span_before_all_faults_belongs_to_none(self):
        self.assertEqual(stalls.of_faults([10.0], [(3.0, 4.0)]), [0.0])

    def test_the_longest_span_of_a_fault_counts(self):
        self.assertEqual(stalls.of_faults([10.0], [(11.0, 11.5), (12.0, 14.0), (9.5, 10.5)]), [2.0])

    def test_a_fault_at_either_end_of_a_span_is_within_it(self):
        self.assertEqual(stalls.of_faults([10.0, 15.0], [(10.0, 11.0), (14.0, 15.0)]), [1.0, 1.0])


class Availability(unittest.TestCase):
    def test_spans_that_overlap_count_once(self):
        self.assertEqual(stalls.covered([(1.0, 3.0), (2.0, 4.0), (2.5, 2.75), (6.0, 7.0)], 0.0, 10.0), 4.0)

    def test_only_the_part_within_the_stretch_counts(self):
        self.assertEqual(stalls.covered([(-1.0, 1.0), (9.0, 12.0), (20.0, 21.0)], 0.0, 10.0), 2.0)

    def test_availability_is_the_rest(self):
        self.assertEqual(stalls.availability([(1.0, 2.0)], 0.0, 10.0), 0.9)
        self.assertEqual(stalls.availability([], 0.0, 10.0), 1.0)
        self.assertEqual(stalls.availability([], 5.0, 5.0), 1.0)


    def test_calm_is_where_no_fault_is_and_none_was_just_before(self):
        self.assertEqual(stalls.calm([(10.0, 12.0), (20.0, 21.0)], 5.0, 30.0, 3.0), [(5.0, 10.0), (15.0, 20.0), (24.0, 30.0)])
        self.assertEqual(stalls.calm([(10.0, 12.0), (14.0, 28.0)], 5.0, 30.0, 3.0), [(5.0, 10.0)])
        self.assertEqual(stalls.calm([], 5.0, 30.0, 3.0), [(5.0, 30.0)])

    def test_a_rate_counts_the_operations_that_end_in_its_spans(self):
        self.assertEqual(stalls.rate([(1.0, 8), (2.0, 8), (7.0, 4)], [(1.0, 3.0), (6.0, 8.0)]), 3.0)
        self.assertEqual(stalls.rate([(1.0, 8)], []), 0.0)


class Quantiles(unittest.TestCase):
    def test_a_quantile_is_one_of_the_values(self):
        values = [float(value) for value in range(100, 0, -1)]
        self.assertEqual([stalls.quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)], [1.0, 50.0, 99.0, 100.0])

    def test_of_few_values_the_largest_is_p99(self):
        self.assertEqual(stalls.quantile([1.0, 2.0], 0.99), 2.0)
        self.assertEqual(stalls.quantile([], 0.5), 0.0)


class Curves(unittest.TestCase):
    def test_windows_have_equal_lengths(self):
        self.assertEqual(curves.means([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])
        self.assertEqual(curves.means([1.0, 3.0] * curves.WINDOWS), [2.0] * curves.WINDOWS)

    def test_a_difference_is_relative(self):
        self.assertAlmostEqual(curves.difference([110.0, 1.1], [100.0, 1.0]), 0.1)
        self.assertEqual(curves.difference([2.0], [2.0]), 0.0)


class Rank:
    """Takes the place of a process: prints what a test gives it."""

    def __init__(self):
        self.printed, self.sent, self.status = ["ready"], [], None

    def has_line(self) -> bool:
        return bool(self.printed)

    def line(self) -> str:
        return self.printed.pop(0)

    def poll(self):
        return self.status

    def send(self, line: str) -> None:
        self.sent.append(line)

    def end(self) -> None:
        pass


class World:
    def start_rank(self, *_) -> Rank:
        return Rank()

    def start_python_rank(self, *words, **_) -> Rank:
        rank = Rank()
        rank.words = words
        return rank

    def keep_output(self, *_) -> None:
        pass


class Jobs(unittest.TestCase):
    def job(self, mix: str = "out", limit: float = 60.0) -> Job:
        self.record = Record()
        options = SimpleNamespace(ranks=2, elements=4096, mix=[mix], slow_ms=100, limit=limit)
        job = Job(World(), self.record, options, lambda: False)
        job.poll()
        return job

    def ranks_print(self, job: Job, *lines: str) -> None:
        for rank, line in zip(job.ranks, lines):
            rank.printed.append(line)
        job.poll()

    def test_all_ranks_get_the_same_work_when_all_are_ready(self):
        job = self.job()
        self.assertTrue(job.ranks[0].sent)
        self.assertEqual(job.ranks[0].sent, job.ranks[1].sent)

    def test_operations_count_when_all_ranks_have_ended_them(self):
        job = self.job()
        well = "timed 1 wrong 0 longest 10 at 20 repairs 0"
        self.ranks_print(job, well)
        self.assertEqual(self.record.operations, 0)
        self.ranks_print(job, well, well)
        self.assertEqual(self.record.operations, 1)
        job.ranks[1].printed.append(well)
        job.poll()
        self.assertEqual(self.record.operations, 1 + WORKLOADS["out"][2])

    def test_wrong_elements_and_slow_operations_are_recorded(self):
        job = self.job()
        self.ranks_print(job, "slow 2000000 500000")
        self.ranks_print(job, "timed 1 wrong 3 longest 500000 at 2000000 repairs 2", "timed 1 wrong 4 longest 1 at 1 repairs 1")
        self.assertEqual(self.record.wrong, 7)
        self.assertEqual(self.record.spans[0], (2.0, 2.5))
        self.assertEqual(job.repairs, 2)

    def test_a_job_is_over_when_all_ranks_have_failed(self):
        job = self.job()
        self.ranks_print(job, "7 peer lost 1 0 | message")
        self.assertFalse(job.over)
        job.ranks[1].status = -9
        job.poll()
        self.assertTrue(job.over)
        self.assertEqual(job.failures, ["rank 0: 7 peer lost 1 0 | message", "rank 1: ended with -9"])

    def test_an_operation_in_place_may_fail_for_a_lost_node_alone(self):
        lost = "10 node lost -1 1 | message"
        job = self.job("overwrite")
        self.ranks_print(job, lost, lost)
        self.assertEqual((self.record.excused, job.failures), (1, []))
        self.ranks_print(job, "10 deadline -1 1 | message")
        self.assertTrue(job.failures)
        job = self.job("out")
        self.ranks_print(job, lost, lost)
        self.assertEqual(len(job.failures), 2)

    def test_ranks_that_disagree_on_how_operations_ended_are_a_failure(self):
        job = self.job("overwrite")
        self.ranks_print(job, "10 node lost -1 1 | message", "timed 1 wrong 0 longest 1 at 1 repairs 0")
        self.assertIn("the ranks disagree", job.failures[0])

    def test_a_job_in_which_nothing_ends_hangs_after_the_limit(self):
        job = self.job(limit=0.02)
        self.assertFalse(job.hangs)
        time.sleep(0.03)
        self.assertTrue(job.hangs)

    def test_the_time_between_two_jobs_is_an_outage(self):
        job = self.job()
        well = "timed 1 wrong 0 longest 10 at 20 repairs 0"
        self.ranks_print(job, well, well)
        ended = job.last_progress
        job.abandon()
        job.start()
        job.poll()
        self.ranks_print(job, well, well)
        self.assertEqual(self.record.outages[1], (ended, job.last_progress))


class FinishJobs(unittest.TestCase):
    """Jobs of three ranks that have ended their first chunk, which is one round. Faults happen to rank 2 only."""
    WELL = "timed 1 wrong 0 longest 10 at 20 repairs 0"

    def setUp(self):
        self.record = Record()
        options = SimpleNamespace(ranks=3, elements=4096, mix=["out"], slow_ms=100, limit=60.0, deadline=4.0)
        self.job = FinishJob(World(), self.record, options, lambda: False)
        self.job.poll()
        self.ranks_print(self.WELL, self.WELL, self.WELL)
        self.complete = self.job.complete

    def ranks_print(self, *lines: str) -> None:
        for rank, line in zip(self.job.ranks, lines):
            rank.printed += [line] if line else []
        self.job.poll()

    def kill(self) -> None:
        self.job.fault_begins(2)
        self.job.ranks[2].status = -9
        self.job.poll()

    def test_a_killed_rank_is_not_awaited(self):
        self.kill()
        self.ranks_print("contributors 2 from round 1 without rank 2", "contributors 2 from round 1 without rank 2")
        self.ranks_print(self.WELL, self.WELL)
        self.assertEqual((self.job.failures, self.job.complete), ([], self.complete + 1))

    def test_another_rank_must_not_fail(self):
        self.kill()
        self.ranks_print("7 peer lost 2 0 | message")
        self.assertTrue(self.job.failures)

    def test_a_killed_rank_starts_again_when_the_fault_is_over_and_returns_by_its_round(self):
        self.kill()
        self.job.poll()
        self.assertEqual(self.job.ranks[2].status, -9)
        self.job.fault_ends(2)
        self.job.poll()
        self.assertIsNone(self.job.ranks[2].status)
        self.job.poll()  # ready
        last = self.job.last_rounds[-1]
        chunk = len(self.job.chunks)
        self.assertEqual(self.job.ranks[2].sent[:2], ["deadline 4000", f"until 7 4096 {last} out"])
        self.ranks_print("", "", f"until {last} from 3 wrong 2")
        self.assertEqual((self.record.wrong, len(self.record.returns), self.job.failures), (2, 1, []))
        self.assertEqual(len(self.job.results[2]), chunk)

    def test_all_ranks_must_have_the_same_contributors(self):
        self.kill()
        self.ranks_print("contributors 2 from round 1 without rank 2", "contributors 2 from round 2 without rank 2")
        self.ranks_print(self.WELL, self.WELL)
        self.assertIn("the ranks disagree", self.job.failures[0])

    def test_a_fault_of_rank_0_does_not_excuse_ranks_that_disagree(self):
        self.job.fault_begins(0)
        self.ranks_print("", "contributors 2 from round 1 without rank 0", "contributors 2 from round 2 without rank 0")
        self.ranks_print("", self.WELL, self.WELL)
        self.assertIn("the ranks disagree", self.job.failures[0])

    def test_a_rank_without_a_fault_must_not_be_left_out(self):
        self.ranks_print("contributors 2 from round 1 without rank 1")
        self.assertIn("rank 1: is left out from round 1 on", self.job.failures[0])

    def test_a_stopped_rank_that_was_left_out_fails_and_starts_again(self):
        self.job.fault_begins(2)
        self.ranks_print("contributors 2 from round 1 without rank 2", "contributors 2 from round 1 without rank 2")
        self.ranks_print(self.WELL, self.WELL)
        self.assertEqual(self.job.complete, self.complete + 1)
        self.job.fault_ends(2)
        stopped = self.job.ranks[2]
        self.ranks_print("", "", "7 peer lost 2 0 | message")
        self.job.poll()
        self.assertIsNot(self.job.ranks[2], stopped)
        self.assertEqual(self.job.failures, [])

    def test_a_message_names_the_ranks_that_are_left_out(self):
        self.assertEqual([left_out(text) for text in (None, "3", "3 and 15", "3, 5 and 12 more")], [[], [3], [3, 15], [3, 5]])


class Trainings(unittest.TestCase):
    """Of three ranks that have trained one step."""

    def setUp(self):
        self.record = Record()
        options = SimpleNamespace(ranks=3, slow_ms=100, limit=60.0, deadline=4.0, pause=0)
        self.job = TrainingJob(World(), self.record, options, lambda: False)
        self.job.poll()
        self.train(0, 3, 0, 1, 2)

    def train(self, step: int, contributors: int, *ranks: int, state: int = 7) -> None:
        for rank in ranks:
            self.job.ranks[rank].printed.append(f"step {step} of {contributors} state {state} loss 0.5")
        self.job.poll()

    def lose_rank_2(self) -> None:
        self.job.fault_begins(2)
        self.job.ranks[2].status = -9
        self.job.poll()

    def test_a_step_counts_when_all_its_contributors_have_ended_it(self):
        self.assertEqual(self.record.operations, 1)
        self.train(1, 3, 0, 1)
        self.assertEqual(self.record.operations, 1)
        self.train(1, 3, 2)
        self.assertEqual(self.record.operations, 2)

    def test_others_train_on_without_a_lost_rank(self):
        self.lose_rank_2()
        self.train(1, 2, 0, 1)
        self.assertEqual((self.record.operations, self.job.failures), (2, []))

    def test_a_rank_may_die_after_it_has_contributed(self):
        self.lose_rank_2()
        self.train(1, 3, 0, 1)
        self.assertEqual((self.record.operations, self.job.failures), (2, []))

    def test_a_rank_may_be_stopped_after_it_has_contributed(self):
        self.job.fault_begins(2)
        self.train(1, 3, 0, 1)
        self.assertEqual(self.record.operations, 2)

    def test_the_return_of_a_rank_is_no_progress(self):
        self.lose_rank_2()
        self.job.fault_ends(2)
        before = self.job.last_progress
        self.job.poll()
        self.job.ranks[2].printed.append("ready")
        self.job.poll()
        self.assertEqual((self.job.last_progress, self.job.failures), (before, []))

    def test_ranks_with_other_parameters_are_a_failure(self):
        self.train(1, 3, 0, 1)
        self.train(1, 3, 2, state=8)
        self.assertIn("disagree on step 1", self.job.failures[0])

    def test_no_step_is_left_out_or_done_twice(self):
        self.train(0, 3, 1)
        self.assertIn("rank 1: does step 0 after step 0", self.job.failures[0])

    def test_a_lost_rank_returns_with_the_state_of_the_others(self):
        self.lose_rank_2()
        self.job.fault_ends(2)
        self.train(1, 2, 0, 1)
        self.assertIn("--returns", self.job.ranks[2].words)
        for rank in self.job.ranks:
            rank.printed.append("together before step 2")
        self.train(2, 3, 0, 1, 2)
        self.assertEqual((self.record.operations, len(self.record.returns), self.job.failures), (3, 1, []))


if __name__ == "__main__":
    unittest.main()
