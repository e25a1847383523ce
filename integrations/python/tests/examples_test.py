"""The examples, as README has them: they learn, and twice to the same bits."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import group

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SOAK = group.SOAK


class Examples(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="tally-examples-")

    def tearDown(self):
        self.place.cleanup()

    def run_example(self, name, ranks, *flags, launcher=False, plot=False):
        """launcher: torch's starts the ranks, which takes longer. plot: it draws one, which takes longer, too."""
        report = Path(self.place.name, "report.json")
        drawing = Path(self.place.name, "plot.svg")
        program = [str(EXAMPLES / name), "--json", str(report), *(["--plot", str(drawing)] if plot else []), *flags]
        if launcher:
            group.launched(ranks, *program).finish(timeout=200)
        else:
            self.run_ranks(program, ranks)
        if plot:
            self.assertIn("<svg", drawing.read_text())
        return json.loads(report.read_text())["epochs"]

    def run_ranks(self, program, ranks) -> str:
        """Returns what rank 0 printed."""
        processes = group.start_ranks([sys.executable, *program], ranks, short_end=True)
        outputs = group.outputs(processes)
        self.assertEqual([process.poll() for process in processes], ranks * [0], "".join(outputs))
        return outputs[0]

    def test_digits(self):
        epochs = self.run_example("train_digits.py", 2, launcher=True, plot=True)
        self.assertGreaterEqual(epochs[-1]["test_accuracy"], 0.97)
        self.assertTrue(all(0 <= epoch["waiting"] < 1 for epoch in epochs))

    def test_digits_with_four_ranks_twice(self):
        whole = ["--epochs", "10" if SOAK else "2"]
        epochs = self.run_example("train_digits.py", 4, *whole)
        if SOAK:
            self.assertGreaterEqual(epochs[-1]["test_accuracy"], 0.97)
        again = self.run_example("train_digits.py", 4, "--epochs", "2")
        self.assertEqual([e["loss"] for e in again], [e["loss"] for e in epochs[:2]])

    def test_digits_with_gloo_for_comparison(self):
        epochs = self.run_example("train_digits.py", 2, "--backend", "gloo", "--epochs", "2")
        self.assertLess(epochs[-1]["loss"], epochs[0]["loss"])

    def test_benchmarks_run(self):
        if not Path(os.environ["TALLYD"]).parents[1].joinpath("perf/tally-perf").exists():
            self.skipTest("built without perf/")
        for expected, name, *flags in (
                ("gradients copied on tally's way: 0 bytes by the hook", "ddp_exchange.py", "--steps", "5" if SOAK else "1"),
                ("copied by the hook: 0 bytes", "hook_overhead.py"), ("(2 ranks)", "collectives.py")):
            self.assertIn(expected, self.run_ranks([str(EXAMPLES.parent / "perf" / name), "--rounds", "1", *flags], 2))

    def test_text(self):
        epochs = self.run_example("train_text.py", 2, "--epochs", "2", plot=True)
        self.assertLess(epochs[-1]["loss"], 2.8)
        self.assertGreater(epochs[0]["clipped"], 0)

    def test_sharded_text_as_with_gloo(self):
        epochs = self.run_example("train_gpt.py", 2, "--epochs", "5" if SOAK else "1", plot=True)
        self.assertLess(epochs[-1]["loss"], 2.3 if SOAK else 3.3)
        if SOAK:
            again = self.run_example("train_gpt.py", 2, "--epochs", "1")
            self.assertEqual(again[0]["loss"], epochs[0]["loss"])
        gloo = self.run_example("train_gpt.py", 2, "--epochs", "1", "--backend", "gloo")
        self.assertAlmostEqual(gloo[0]["loss"], epochs[0]["loss"], delta=1e-3)

    def test_elastic_digits_train_on(self):
        checkpoint = ["--checkpoint", f"{self.place.name}/digits.pt"]
        whole = self.run_example("train_elastic.py", 2, "--epochs", "2", "--checkpoint", f"{self.place.name}/whole.pt",
                                 plot=True)
        self.run_example("train_elastic.py", 2, "--epochs", "1", *checkpoint)
        epochs = self.run_example("train_elastic.py", 2, "--epochs", "2", *checkpoint)
        self.assertEqual([e["loss"] for e in epochs], [e["loss"] for e in whole])


if __name__ == "__main__":
    group.WarmProgram.imports += ("torch.distributed.fsdp", "sklearn.datasets", "matplotlib.pyplot")
    unittest.main(verbosity=2)
