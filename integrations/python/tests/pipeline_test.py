"""The example of pipelines: its parts, and a small training, which must give what the model gives that is not divided."""

import json
import os
import shutil
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import torch

import group
from group import Process

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import cpu_limits  # noqa: E402
import pipeline_model  # noqa: E402
import pipeline_plan  # noqa: E402

LAYERS, MICROBATCHES, STEPS = 4, 6, 4


def entry(name: str, seconds: float, size: int) -> dict:
    return {"name": name, "forward": [seconds], "backward": [2 * seconds], "output": size, "stash": 2 * size, "kept": size,
            "weights": 3 * size}


class Parts(unittest.TestCase):
    def test_faster_chains_get_more_microbatches(self):
        self.assertEqual(pipeline_plan.shares([1.0, 1.0], 6, 2), [3, 3])
        self.assertEqual(pipeline_plan.shares([1.0, 1.25], 18, 2), [10, 8])
        self.assertEqual(pipeline_plan.shares([1.0, 100.0], 8, 2), [6, 2])

    def test_joined_blocks_have_the_sums_and_the_outer_ends(self):
        profile = {"fmt": "tally-profile/1", "blocks": [entry("a", 1, 10), entry("b", 2, 20), entry("c", 3, 30)]}
        first, last = pipeline_plan.joined(profile, [(0, 2), (2, 3)])["blocks"]
        self.assertEqual(first, {"name": "a", "forward": [3], "backward": [6], "output": 20, "stash": 60, "kept": 10,
                                 "weights": 90})
        self.assertEqual(last, profile["blocks"][2])
        self.assertEqual(pipeline_plan.seconds_of(profile, (1, 3)), 15)

    def test_neighbours_form_servers(self):
        servers = pipeline_plan.Machine([1.0, 0.5, 0.25, 0.125], nic=1e8, inside=1e9, replicas=2).servers()
        self.assertEqual([[gpu["speed"] for gpu in server["gpus"]] for server in servers], [[1.0, 0.5], [0.25, 0.125]])
        self.assertNotEqual(servers[0]["name"], servers[1]["name"])

    def test_a_limit_is_never_below_what_linux_takes(self):
        self.assertEqual(cpu_limits.period_and_quota(0.5), (10_000, 5_000))
        period, quota = cpu_limits.period_and_quota(0.05)
        self.assertEqual((period, quota), (20_000, 1_000))

    def test_a_stage_has_the_job_of_its_domain(self):
        stage = pipeline_plan.Stage((0, 2), [0, 1], "torch-1f-planned-st0")
        self.assertEqual(stage.job, "1f-planned-st0")  # State puts torch- before it

    def test_without_root_there_are_no_limits(self):
        with unittest.mock.patch("os.geteuid", return_value=1000), cpu_limits.CpuLimits([1.0]) as limits:
            self.assertEqual((limits.groups, limits.missing), ([], "only root may make control groups"))


class ControlGroups2(unittest.TestCase):
    """A folder that looks like version 2 of control groups."""

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="tally-cgroup2-")
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        self.write("cgroup.controllers", "cpuset cpu io memory pids\n")
        self.write("cgroup.subtree_control", "memory pids\n")
        for patch in (unittest.mock.patch("os.geteuid", return_value=0),
                      unittest.mock.patch.object(cpu_limits, "VERSION_1", (str(self.root / "cpu"),)),
                      unittest.mock.patch.object(cpu_limits, "VERSION_2", str(self.root)),
                      # The kernel removes the files of a group with it.
                      unittest.mock.patch.object(Path, "rmdir", lambda path: shutil.rmtree(path))):
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def test_each_rank_has_a_group_with_its_limit(self):
        with cpu_limits.CpuLimits([0.55, 0.05]) as limits:
            self.assertEqual((limits.kind, limits.missing, len(limits.groups)), ("cpu.max", "", 2))
            self.assertEqual([group.parent for group in limits.groups], [self.root] * 2)
            self.assertEqual([(group / "cpu.max").read_text() for group in limits.groups], ["5500 10000", "1000 20000"])
            cpu_limits.enter(limits.groups[1])
            self.assertEqual((limits.groups[1] / "cgroup.procs").read_text(), str(os.getpid()))
            groups = list(limits.groups)
        self.assertFalse(any(group.exists() for group in groups))

    def test_the_controller_is_enabled_once(self):
        with cpu_limits.CpuLimits([1.0, 1.0]):
            self.assertEqual(self.read("cgroup.subtree_control"), "+cpu")
        self.write("cgroup.subtree_control", "cpu memory\n")
        with cpu_limits.CpuLimits([1.0]):
            self.assertEqual(self.read("cgroup.subtree_control"), "cpu memory\n")

    def test_says_why_there_are_no_limits(self):
        self.write("cgroup.controllers", "cpuset io memory\n")
        with cpu_limits.CpuLimits([1.0]) as limits:
            self.assertEqual(limits.groups, [])
            self.assertIn("cgroup.controllers does not name cpu", limits.missing)
        self.assertEqual(self.read("cgroup.subtree_control"), "memory pids\n")

    def test_a_group_that_cannot_have_a_limit_is_removed(self):
        def refuse(path: Path, text: str) -> None:
            raise OSError(16, "Device or resource busy", str(path))
        before = set(self.root.iterdir())
        self.write("cgroup.subtree_control", "cpu\n")
        with unittest.mock.patch.object(Path, "write_text", refuse), cpu_limits.CpuLimits([1.0]) as limits:
            self.assertEqual(limits.groups, [])
            self.assertIn("Device or resource busy", limits.missing)
        self.assertEqual(set(self.root.iterdir()), before)


class Training(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="tally-pipeline-test-")
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)

    def run_example(self, *flags) -> str:
        process = Process([sys.executable, EXAMPLES / "train_pipeline.py", "--layers", LAYERS, "--microbatch", "1",
                           "--microbatches", MICROBATCHES, "--steps", STEPS - 1, "--calibrate", "0.3", *flags])
        return process.finish(timeout=group.DEADLINE_S)

    def test_gives_what_the_model_gives_that_is_not_divided(self):
        self.run_example("--json", self.place / "report.json", "--save", self.place / "model.pt",
                         "--files", self.place / "files")
        report = json.loads((self.place / "report.json").read_text())
        losses, model = self.trained_alone()
        self.assertLess(losses[-1], losses[0])
        for division in report["divisions"]:
            self.assertEqual([len(stage["ranks"]) for stage in division["stages"]], [2, 2])
            self.assertEqual(sum(division["microbatches"]), MICROBATCHES)
            for found, expected in zip(division["losses"], losses, strict=True):
                self.assertAlmostEqual(found, expected, delta=1e-4)
        saved = torch.load(self.place / "model.pt")
        self.assertEqual(len(saved), len(model))
        for block, state in zip(model, saved):
            for name, value in block.state_dict().items():
                torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5)
        self.assertEqual(report["limited"], cpu_limits_work())
        plan = json.loads((self.place / "files/planned-plan.json").read_text())
        self.assertEqual([stage["blocks"] for stage in plan["pipeline"]["stages"]],
                         [stage["blocks"] for stage in report["divisions"][1]["stages"]])
        self.assertEqual([domain["name"] for domain in plan["domains"]],
                         [stage["domain"] for stage in report["divisions"][1]["stages"]])
        self.assertTrue(plan["domains"][0]["name"].startswith("torch-"))

    def trained_alone(self) -> tuple[list[float], torch.nn.Sequential]:
        model, pieces = pipeline_model.blocks(LAYERS), pipeline_model.Pieces()
        optimizer, losses = pipeline_model.optimizer_of(model), []
        for step in range(STEPS):
            given, wanted = pieces.batch(step, MICROBATCHES)
            optimizer.zero_grad()
            loss = pipeline_model.loss_of(model(given), wanted)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, model

    def test_refuses_ranks_that_make_no_stages(self):
        process = Process([sys.executable, EXAMPLES / "train_pipeline.py", "--cpus", "1,1,1"])
        self.assertIn("--cpus has 3 ranks", process.finish(status=2))


def cpu_limits_work() -> bool:
    """Whether a control group can be made here. None is left behind."""
    with cpu_limits.CpuLimits([1.0]) as limits:
        groups = list(limits.groups)
        found = bool(groups) and os.geteuid() == 0
    assert not any(path.exists() for path in groups)
    return found


if __name__ == "__main__":
    unittest.main(verbosity=2)
