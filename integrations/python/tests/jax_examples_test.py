"""The example for JAX: it learns, and twice to the same bits."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import group

EXAMPLE = Path(__file__).resolve().parents[1] / "examples/train_jax.py"


class JaxExample(unittest.TestCase):
    def train(self, ranks, *flags):
        """Without $TALLY_ADDRESS, so the ranks share a node of their own."""
        with tempfile.TemporaryDirectory(prefix="tally-examples-") as place:
            report = Path(place, "report.json")
            processes = group.start_ranks([sys.executable, str(EXAMPLE), "--json", str(report), *flags], ranks)
            texts = group.outputs(processes, 120)
            self.assertEqual([process.poll() for process in processes], [0] * ranks, "\n".join(texts))
            return json.loads(report.read_text())["epochs"]

    def test_digits_twice(self):
        epochs = self.train(2)
        self.assertGreaterEqual(epochs[-1]["test_accuracy"], 0.95)
        again = self.train(2, "--epochs", "2")
        self.assertEqual([e["loss"] for e in again], [e["loss"] for e in epochs[:2]])


if __name__ == "__main__":
    group.WarmProgram.imports = ("jax", "sklearn.datasets")
    unittest.main(verbosity=2)
