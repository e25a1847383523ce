"""Profiles of models for tallyctl plan pipeline."""

import json
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import tally.torch


def small_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))


class Profile(unittest.TestCase):
    def test_has_the_bytes_of_each_block(self):
        profile = tally.torch.profile_blocks(small_model(), torch.randn(8, 16), type="cpu", model="small", repeats=2)
        self.assertEqual(profile["fmt"], "tally-profile/1")
        self.assertEqual(profile["microbatch"], 8)
        self.assertEqual(profile["types"], ["cpu"])
        linear, norm, relu, head = profile["blocks"]
        self.assertEqual([block["name"] for block in profile["blocks"]], ["0", "1", "2", "3"])
        self.assertEqual(linear["weights"], 4 * (16 * 32 + 32))
        self.assertEqual(linear["output"], 4 * 8 * 32)
        # A linear layer keeps its input. The first block keeps nothing else if it is recomputed.
        self.assertEqual(linear["stash"], 4 * 8 * 16)
        self.assertEqual(linear["kept"], 0)
        self.assertEqual(norm["kept"], 4 * 8 * 32)
        self.assertEqual(relu["weights"], 0)
        # ReLU keeps its output alone.
        self.assertEqual(relu["stash"], 4 * 8 * 32)
        self.assertEqual(head["output"], 4 * 8 * 4)
        for block in profile["blocks"]:
            self.assertGreater(block["forward"][0], 0)
            self.assertGreater(block["backward"][0], 0)

    def test_leaves_the_model_as_it_is(self):
        model = small_model()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        tally.torch.profile_blocks(model, torch.randn(8, 16), repeats=1)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))

    def test_takes_tokens_and_blocks_without_weights_first(self):
        embedded = tally.torch.profile_blocks([nn.Embedding(10, 4), nn.Linear(4, 2)], torch.arange(6), repeats=1)
        self.assertEqual(embedded["blocks"][0]["weights"], 4 * 40)
        flat = tally.torch.profile_blocks([nn.Flatten(), nn.Linear(4, 2)], torch.randn(3, 2, 2), repeats=1)
        self.assertEqual(flat["blocks"][0]["backward"], [0.0])

    def test_writes_a_file_that_is_read_as_the_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "profile.json"
            profile = tally.torch.profile_blocks(small_model(), torch.randn(8, 16), repeats=1, path=path)
            self.assertEqual(json.loads(path.read_text()), profile)

    def test_merges_the_types_of_gpus(self):
        one = tally.torch.profile_blocks(small_model(), torch.randn(8, 16), type="a", repeats=1)
        two = tally.torch.profile_blocks(small_model(), torch.randn(8, 16), type="b", repeats=1)
        merged = tally.torch.merge_profiles([one, two])
        self.assertEqual(merged["types"], ["a", "b"])
        self.assertEqual(merged["blocks"][3]["forward"],
                         one["blocks"][3]["forward"] + two["blocks"][3]["forward"])
        self.assertEqual(one["types"], ["a"])
        with self.assertRaisesRegex(ValueError, "two profiles have the type 'a'"):
            tally.torch.merge_profiles([one, one])
        with self.assertRaisesRegex(ValueError, "different blocks"):
            tally.torch.merge_profiles([one, tally.torch.profile_blocks([nn.ReLU()], torch.randn(8, 16), type="b",
                                                                        repeats=1)])

    def test_refuses_what_is_no_chain(self):
        class Pair(nn.Module):
            def forward(self, value):
                return value, value

        with self.assertRaisesRegex(TypeError, "block 1 returns tuple"):
            tally.torch.profile_blocks([nn.ReLU(), Pair()], torch.randn(2, 2))
        with self.assertRaisesRegex(ValueError, "no block"):
            tally.torch.profile_blocks([], torch.randn(2, 2))


if __name__ == "__main__":
    unittest.main()
