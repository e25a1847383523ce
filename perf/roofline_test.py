"""The estimates of roofline.py against published figures of the models."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import roofline  # noqa: E402

WORKLOADS = Path(__file__).parent / "workloads"


def profile_of(model: str, *words: str) -> dict:
    path = WORKLOADS / f"{model}.json"
    # A memory so fast that the operations alone count, at one per second.
    arguments = roofline.read_arguments([str(path), "--flops", "1", "--memory", "1e300", "--samples", "1", *words])
    return roofline.profile_of(json.loads(path.read_text()), arguments)


def operations(profile: dict) -> float:
    return sum(block["forward"][0] for block in profile["blocks"])


class Roofline(unittest.TestCase):
    def test_convolutional_networks_have_their_published_operations(self):
        # Multiply-adds of torchvision: VGG-16 15.47 G, ResNet-50 4.09 G.
        self.assertAlmostEqual(operations(profile_of("vgg16")) / 2 / 15.47e9, 1, delta=0.02)
        self.assertAlmostEqual(operations(profile_of("resnet50")) / 2 / 4.09e9, 1, delta=0.12)

    def test_transformers_have_two_operations_for_each_weight_and_token(self):
        profile = profile_of("gpt2", "--tokens", "128")
        layers = [block for block in profile["blocks"] if block["name"].startswith("h.")]
        self.assertEqual(len(layers), 12)
        attention = 4 * 128 * 128 * 768
        self.assertAlmostEqual(layers[0]["forward"][0], 2 * 128 * 12 * 768 * 768 + attention, delta=1e6)
        self.assertEqual(layers[0]["output"], 4 * 128 * 768)
        self.assertEqual(layers[0]["kept"], layers[0]["output"])

    def test_every_workload_keeps_its_weights(self):
        for path in sorted(WORKLOADS.glob("*.json")):
            profile = profile_of(path.stem)
            weights = sum(block["weights"] for block in profile["blocks"])
            self.assertEqual(weights, 4 * json.loads(path.read_text())["parameters"], path.stem)
            for block in profile["blocks"]:
                self.assertGreater(block["output"], 0, block["name"])

    def test_slow_memory_decides(self):
        fast, slow = profile_of("vgg16"), profile_of("vgg16", "--flops", "1e300", "--memory", "1")
        head = slow["blocks"][-1]
        self.assertEqual(head["forward"][0], head["weights"] + 4 * 4096 + 4 * 1000)
        self.assertNotEqual(head["forward"], fast["blocks"][-1]["forward"])


if __name__ == "__main__":
    unittest.main()
