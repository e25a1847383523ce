"""The tables of papers: closed forms, and figures that planners and simulator must give.

usage: tables_test.py TALLYCTL TALLY_PERF
"""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import byteps  # noqa: E402
import forests  # noqa: E402
import groups  # noqa: E402
import overlays  # noqa: E402
import pipedream  # noqa: E402
import pipelines  # noqa: E402
from programs import Programs  # noqa: E402
from table import Table  # noqa: E402

PLANNED = 2e-3  # how far a plan may be above the optimum: the gap of the search, and weights of 1/65536
FILLED = 0.06  # how far a simulated time may be above the loads


class WithPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = cls.enterClassContext(Programs(*map(Path, PROGRAMS)))

    def assert_close(self, found, expected, relative):
        self.assertAlmostEqual(found / expected, 1, delta=relative)

    def tau(self, network: dict) -> float:
        return self.programs.plan(network).tau * forests.UNIT


class BytePs(WithPrograms):
    def test_the_formula_has_its_known_values(self):
        for k, expected in enumerate((1.75, 1.6, 1.4737, 1.3659, 1.2727, 1.1915, 1.12, 1.0566, 1.0)):
            self.assertAlmostEqual(byteps.optimal(8, k), expected, delta=5e-5)
        for n, k, expected in ((3, 1, 1.2), (3, 2, 1.0909), (4, 1, 1.3333), (4, 2, 1.2), (5, 2, 1.2903), (2, 0, 1), (2, 5, 1),
                               (1, 3, 0), (4, 9, 1)):
            self.assertAlmostEqual(byteps.optimal(n, k), expected, delta=5e-5)
        self.assertIsNone(byteps.formula("PS, not colocated", 8, 0))

    def test_plans_and_simulations_follow_the_curve(self):
        table = byteps.curve(self.programs)
        self.assertEqual(len(table.rows), 9)
        for expected, planned, simulated in zip(*map(table.column, ("paper's formula", "planned", "simulated"))):
            self.assert_close(planned, expected, PLANNED)
            self.assertGreaterEqual(simulated, expected * (1 - 1e-9))
            self.assertLess(simulated, expected * (1 + FILLED))

    def test_the_loads_of_every_system_are_its_formula(self):
        table = byteps.systems(self.programs)
        self.assertEqual(set(table.column("system")), set(byteps.SYSTEMS))
        for expected, loads, simulated in zip(*map(table.column, ("formula", "by loads", "simulated"))):
            self.assert_close(loads, expected, PLANNED)
            self.assertLess(simulated, expected * (1 + FILLED))

    def test_gains_up_to_256_gpus(self):
        table = byteps.scaling(self.programs)
        found = {(row[1], row[2]): row[3] for row in table.rows}
        for key, expected in {(8, 2): 1.1875, (8, 4): 1.375, (8, 8): 1.75, (32, 8): 1.234, (32, 16): 1.469,
                              (32, 32): 1.938}.items():
            self.assertAlmostEqual(found[key], expected, delta=5e-4)
        self.assertEqual(table.rows[-1][0], 256)
        self.assertIn("at most 93.8%", table.notes[-1])
        for expected, planned in zip(table.column("over all-reduce"), table.column("planned")):
            self.assert_close(planned, expected, PLANNED)


class Forests(WithPrograms):
    def test_small_networks_of_pairs_have_their_known_values(self):
        def complete(n):
            return [[float(i != j) for j in range(n)] for i in range(n)]

        for n in (3, 5):
            self.assert_close(self.tau(overlays.network(complete(n), forests.UNIT)), 2 / n, PLANNED)
            self.assertAlmostEqual(overlays.two_phases(complete(n)), 2 / n)
            self.assertAlmostEqual(overlays.colocated_servers(complete(n)), 2 / n)
            self.assertAlmostEqual(overlays.ring(complete(n), list(range(n))), 2 * (n - 1) / n)
        path = [[0, 1, 0], [1, 0, 2], [0, 2, 0]]
        self.assert_close(self.tau(overlays.network(path, forests.UNIT)), 1, PLANNED)
        self.assertAlmostEqual(overlays.two_phases(path), 4 / 3)
        self.assertAlmostEqual(overlays.single_tree(path), 1)

    def test_an_improved_ring_is_no_slower_and_has_all_workers(self):
        for seed in range(20):
            speeds = overlays.uniform(7, seed)
            order = overlays.improved(speeds, list(range(7)))
            self.assertEqual(sorted(order), list(range(7)))
            self.assertLessEqual(overlays.ring(speeds, order), overlays.ring(speeds, list(range(7))))

    def test_planned_trees_are_never_slower(self):
        table = forests.pairs(self.programs, instances=4)
        self.assertEqual(len(table.rows), len(forests.OVERLAYS))
        for row in table.rows:
            for gain in row[2:]:
                self.assertGreater(gain, 1 - PLANNED)
            self.assertGreater(row[2], row[3])  # a ring, over an improved one

    def test_racks_have_their_known_values(self):
        table = forests.shared(self.programs)
        known = ((2, 1.75, 1.75, 1.75), (2, 1.75, 1.75, 1.2857), (4, 1.75, 1.75, 1.5), (4, 1.75, 1.75, 1.0909),
                 (8, 3.5, 2, 2), (7, 1.969, 1.969, 1.6136))
        for row, expected in zip(table.rows, known, strict=True):
            for found, value in zip(row[4:8], expected):
                self.assert_close(found, value, 3e-3)
        for trees, simulated in zip(table.column("trees"), table.column(f"{forests.MANY} chunks")):
            self.assertLess(simulated, trees * (1 + FILLED))


class Trainings(WithPrograms):
    def test_groups_have_their_known_values(self):
        for server, throughput, sizes in ((0.5, 3.2821, [8]), (1.0, 3.9853, [4, 4]), (4.0, 4.8, [1, 1, 1, 1, 2, 2])):
            answer = groups.planned(self.programs, 2.0, server)
            self.assertAlmostEqual(answer["synchronous"], 3.2821, delta=5e-5)
            self.assertAlmostEqual(answer["throughput"], throughput, delta=5e-5)
            self.assertEqual(sorted(len(group["workers"]) for group in answer["groups"]), sizes)

    def test_groups_are_never_slower_than_synchronous_training(self):
        table, = groups.tables(self.programs)
        self.assertGreaterEqual(min(table.column("gain")), 1 - 1e-9)
        self.assertEqual(table.rows[0][3], "0%")

    def test_a_block_of_a_profile_ends_where_one_tensor_crosses(self):
        layers = [("node1 -- Input -- forward_compute_time=9.000, backward_compute_time=0.000, ", "77", "0"),
                  ("node3 -- Conv2d(3, 64, bias=True) -- forward_compute_time=2.000, backward_compute_time=4.000, ", "50", "7"),
                  ("node2 -- ReLU(inplace) -- forward_compute_time=1.000, backward_compute_time=3.000, ", "40", "0"),
                  ("node4 -- Add(inplace) -- forward_compute_time=0.500, backward_compute_time=0.500, ", "30", "0"),
                  ("node5 -- Linear(in_features=9, out_features=2) -- forward_compute_time=1.000, backward_compute_time=1.000, ", "2", "8")]
        edges = "node1 -- node3", "node3 -- node2", "node3 -- node4", "node2 -- node4", "node4 -- node5"
        text = [f"{head}activation_size={output}.000, parameter_size={weights}.000" for head, output, weights in layers]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "graph.txt")
            file.write_text("\n".join([*reversed(text), *("\t" + edge for edge in edges)]), encoding="utf-8")
            blocks = pipedream.profile_of(file)["blocks"]
        # The input takes no time. Two tensors cross between the branches and their sum.
        self.assertEqual([block["name"] for block in blocks], ["0-Input", "1-ReLU", "2-Linear"])
        self.assertEqual([block["forward"] for block in blocks], [[0.002], [0.0015], [0.001]])
        self.assertEqual([block["output"] for block in blocks], [50, 30, 2])
        self.assertEqual([block["kept"] for block in blocks], [0, 50, 30])
        self.assertEqual([block["weights"] for block in blocks], [7, 0, 8])

    def test_pipelines_are_never_slower_than_data_parallelism(self):
        table, = pipelines.tables(self.programs)
        self.assertEqual(len(table.rows), 2 * len(pipelines.CLUSTERS))
        for row in table.rows:
            self.assertGreaterEqual(min(row[2:]), 1 - 1e-9)


class Text(unittest.TestCase):
    def test_a_table_has_its_units_and_aligned_columns(self):
        table = Table("title", "in seconds", ["name", "x"], [["a", 1.23456], ["longer", None]], ["note"])
        self.assertEqual(table.text(), "title\nin seconds\n\nname        x\na       1.235\nlonger      -\n- note\n")


if __name__ == "__main__":
    PROGRAMS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
