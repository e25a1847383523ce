#!/usr/bin/env python3
"""The pure parts of chaos runs: a seed determines the schedule, and stalls are counted once and for the right fault."""

import unittest

import schedule
import stalls

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
            self.assertEqual(schedule.promise(kind, "nodes", network=True, etcd=False), schedule.SURVIVES, kind)

    def test_a_job_survives_its_coordinator_only_with_a_store(self):
        self.assertEqual(schedule.promise("kill", "coordinator", network=False, etcd=True), schedule.SURVIVES)
        self.assertEqual(schedule.promise("kill", "coordinator", network=False, etcd=False), schedule.MAY_END)

    def test_a_killed_rank_ends_its_job(self):
        self.assertEqual(schedule.promise("kill", "ranks", network=True, etcd=True), schedule.ENDS)

    def test_a_node_that_stops_over_shared_memory_may_end_the_job(self):
        self.assertEqual(schedule.promise("stop", "nodes", network=False, etcd=True), schedule.MAY_END)


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


class Quantiles(unittest.TestCase):
    def test_a_quantile_is_one_of_the_values(self):
        values = [float(value) for value in range(100, 0, -1)]
        self.assertEqual([stalls.quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)], [1.0, 50.0, 99.0, 100.0])

    def test_of_few_values_the_largest_is_p99(self):
        self.assertEqual(stalls.quantile([1.0, 2.0], 0.99), 2.0)
        self.assertEqual(stalls.quantile([], 0.5), 0.0)


if __name__ == "__main__":
    unittest.main()
