#!/usr/bin/env python3
"""Several tallyd as one service: a job's operations go over all of them, with the same bits as over one.

usage: many_nodes_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import math
import os
import signal
from pathlib import Path

from nodes import ENDLESS, SIZES, Cluster, free_port, run_tests


class ManyNodes(Cluster):
    def test_the_bits_are_those_of_one_node(self):
        self.start("alone")
        self.cluster(("b",), ("c", "--cluster-speed", "1MiB"))
        self.assertEqual(self.rows(self.address("a")), self.rows(self.address("alone")))
        self.assertEqual(len(self.served()), 3, "all of them have a part of it")
        nowhere = f"unix:{self.place}/nowhere.sock"
        for first in (nowhere, self.address("b")):  # the coordinator is further down the list
            self.assertTrue(self.rows(f"{first},{self.address('a')}"))

    def test_a_client_that_asks_a_member_goes_to_its_coordinator(self):
        self.cluster(("b",))
        self.assertEqual(self.rows(self.address("b")), self.rows(self.address("a")))
        self.assertEqual(len(self.served()), 2)
        self.nodes["a"].kill()
        text = self.perf(self.address("b"), *SIZES).finish(None)
        self.assertIn(f"ask its coordinator, {self.address('a')}", text)

    def test_nodes_of_another_host_are_reached_over_the_network(self):
        port = free_port()
        self.cluster(("b", "--cluster-host", "there", "--listen-tcp", f"tcp:127.0.0.1:{port}", "--verbs", "off"))
        self.assertTrue(self.rows(self.address("a")))
        self.assertEqual(len(self.served()), 2)

    def test_which_transport_a_tcp_address_leads_to(self):
        def transports(address: str) -> str:
            text = self.perf(address, *SIZES).finish(None)
            return text.split("transport ")[1].split(" ")[0].rstrip(",;")
        port = free_port()
        self.start("alone", "--listen-tcp", f"tcp:127.0.0.1:{port}", "--verbs", "off")
        self.assertEqual(transports(f"tcp:127.0.0.1:{port}"), "fabric", "of one node, whose host nobody tells")
        port = free_port()
        self.cluster(coordinator=("--listen-tcp", f"tcp:127.0.0.1:{port}", "--verbs", "off"))
        self.assertEqual(transports(f"tcp:127.0.0.1:{port}"), "shm", "of a cluster, whose coordinator tells")

    def test_what_the_plan_promises_stands_beside_what_was_measured(self):
        self.cluster(("b", "--cluster-host", "there", "--listen-tcp", f"tcp:127.0.0.1:{free_port()}", "--verbs",
                      "off", "--cluster-speed", "1GiB"))
        out = self.place / "rows.json"
        arguments = ["--min-bytes", "64K", "--max-bytes", "1M", "--factor", "16", "--iters", "1", "--json", str(out)]
        text = self.perf(self.address("a"), *arguments).finish(None)
        document = json.loads(out.read_text())
        self.assertIn("the speed of the NIC of here is not known", document["plan"]["why_none"], text)
        self.assertEqual(document["plan"]["nodes"], 2)
        self.assertNotIn("predicted_us", document["rows"][1])
        network = self.place / "m.json"
        network.write_text(json.dumps({"fmt": "tally-machines/1", "machines": [
            {"name": "here", "role": "worker", "nic": 1e9}, {"name": "b", "role": "helper", "nic": 2e9}]}))
        text = self.perf(self.address("a"), *arguments, "--network", str(network)).finish(None)
        document = json.loads(out.read_text())
        self.assertEqual(document["plan"]["why_none"], "", text)
        links = {link["what"]: link for link in document["plan"]["links"]}
        # Two helpers that say nothing else have half each; three ranks send b's half over one NIC.
        self.assertAlmostEqual(links["out of here"]["bytes"], 1.5, places=3)
        self.assertAlmostEqual(links["out of here"]["busy"], 1, places=3)
        self.assertAlmostEqual(links["into there"]["busy"], 0.5, places=3)
        small, large = document["rows"]
        self.assertNotIn("predicted_us", small, "it goes whole to one tree")
        self.assertAlmostEqual(large["predicted_us"], 1.5 * large["bytes"] / 1e9 * 1e6, delta=600)
        self.assertAlmostEqual(large["predicted_ratio"], large["time_us_p50"] / large["predicted_us"])
        self.assertIn("# plan: epoch", text)
        network.write_text("{}")
        text = self.perf(self.address("a"), *arguments, "--network", str(network)).finish(2)
        self.assertIn(f"--network {network}: fmt", text)

    def test_the_links_of_the_plan_in_force_are_in_the_prediction(self):
        self.cluster(("b", "--cluster-host", "there", "--listen-tcp", f"tcp:127.0.0.1:{free_port()}", "--verbs", "off"))
        file = Path(self.plan({"a": 32768, "b": 32768}))
        plan = json.loads(file.read_text())
        # a and b are in two racks, whose uplinks carry a tenth of what their NICs do.
        plan["nodes"] += [{"id": 4, "role": "switch"}, {"id": 5, "role": "switch"}]
        plan["links"] = [link for a, b, speed in ((0, 3, 1e9), (1, 3, 1e9), (2, 4, 1e9), (3, 5, 1e8), (4, 5, 1e8))
                         for link in ([a, b, speed], [b, a, speed])]
        file.write_text(json.dumps(plan))
        out = self.place / "rows.json"
        arguments = ["--min-bytes", "1M", "--max-bytes", "1M", "--iters", "1", "--json", str(out)]

        def promised(address: str, *more: str) -> dict:
            text = self.perf(address, *arguments, *more).finish(None)
            document = json.loads(out.read_text())["plan"]
            self.assertEqual(document["why_none"], "", text)
            links = {link["what"]: link for link in document["links"]}
            # Of three ranks at a, b's half.
            self.assertAlmostEqual(links["switch 3 -> switch 5"]["bytes"], 1.5, places=3)
            self.assertAlmostEqual(links["switch 3 -> switch 5"]["busy"], 1, places=3)
            self.assertAlmostEqual(links["into b"]["busy"], 0.1, places=3)
            self.assertAlmostEqual(document["tau"] * 1e8, 1.5, places=3)
            self.assertIn("# links in", text)
            return links
        given = promised(self.address("a"), "--network", str(file))
        self.ctl("plan", "set", str(file))
        self.assertEqual(promised(self.address("b")), given, "b says who its coordinator is")

    def test_a_node_that_is_killed_is_named_and_the_others_serve_on(self):
        self.cluster(("b",), ("c",))
        run = self.endless()
        self.nodes["c"].kill()
        self.until_repaired(run)
        self.assertIn("c.sock", run.output())
        run.end()
        self.wait_for(2)
        self.assertTrue(self.rows(self.address("a")))
        self.start("c", "--cluster", self.address("a"), "--cluster-name", "c", "--cluster-host", "here")
        self.wait_for(3)
        self.assertTrue(self.rows(self.address("a")))
        self.assertEqual(self.served(), ["a", "b", "c"])

    def test_a_job_forms_again_smaller_and_larger(self):
        self.cluster(("b",))
        run = self.endless(ranks=4)
        ranks = run.children()
        self.assertEqual(len(ranks), 4)
        os.kill(ranks[1], signal.SIGKILL)
        text = run.finish(None)
        self.assertNotEqual(run.poll(), 0, text)
        for number in (3, 5):
            self.assertTrue(self.rows(self.address("a"), ranks=number))
        for node in self.nodes:
            self.assertEqual(json.loads(self.ctl("--json", "jobs", node=node)), [])

    def test_a_plan_is_obeyed(self):
        self.start("alone")
        self.cluster(("b",), ("c",))
        weights = {"a": 40000, "b": 20000, "c": 5536}
        self.assertIn("in force", self.ctl("plan", "set", self.plan(weights, small="c")))
        self.assertEqual(self.rows(self.address("a")), self.rows(self.address("alone")), "the bits of one node")
        before = self.pulled()
        self.run_perf("--min-bytes", "64K", "--max-bytes", "64K", "--iters", "20")
        small = self.pulled()
        self.assertEqual([name for name in before if small[name] > before[name]], ["c"])
        self.run_perf("--min-bytes", "16M", "--max-bytes", "16M", "--iters", "5")
        large = self.pulled()
        total = sum(large[name] - small[name] for name in weights)
        for name, weight in weights.items():
            self.assertAlmostEqual((large[name] - small[name]) / (total * weight / 65536), 1, delta=0.02)
        shown = self.place / "shown.json"
        self.assertIn("epoch 41", self.ctl("plan", "show", "--out", str(shown)))
        self.ctl("plan", "check", str(shown))
        self.ctl("plan", "set", "--closed-form")
        self.assertIn("nobody has set a plan", self.ctl("plan", "show", "--out", str(shown)))
        self.ctl("plan", "check", str(shown))
        self.ctl("plan", "set", str(shown))  # the same, as a plan
        self.assertTrue(self.rows(self.address("a")))

    def test_the_jobs_of_pipeline_stages_have_the_plan_domains_of_their_names(self):
        self.cluster(("b",))
        profile, gpus, plan = (self.place / name for name in ("profile.json", "gpus.json", "pipeline.json"))
        block = {"forward": [0.01], "backward": [0.02], "output": 1e6, "stash": 1e6, "weights": 1e6}
        profile.write_text(json.dumps({"fmt": "tally-profile/1", "microbatch": 1, "types": ["cpu"],
                                       "blocks": [{"name": f"block{i}", **block} for i in range(4)]}))
        gpus.write_text(json.dumps({"fmt": "tally-gpus/1", "servers": [
            {"name": name, "nic": 1e8, "inside": 1e10, "gpus": [{"type": "cpu", "count": 2}]} for name in "ab"]}))
        report = json.loads(self.ctl("--json", "plan", "pipeline", "--profile", str(profile), "--gpus", str(gpus),
                                     "--replicas", "2", "--job-prefix", "torch-gpt-", "--out", str(plan)))
        self.ctl("plan", "set", str(plan))
        for stage in report["stages"]:
            server = stage["gpus"][0]["name"].split("/")[0]
            run = self.begun(self.perf(self.address("a"), *ENDLESS, "--job", stage["domain"], ranks=2))
            shown = json.loads(self.ctl("--json", "plan", "show", "--job", stage["domain"]))
            self.assertEqual((shown["source"], shown["domain"]), ("file", stage["domain"]))
            jobs = {job["name"]: job for job in json.loads(self.ctl("--json", "jobs", "--cluster"))}
            self.assertEqual(jobs[stage["domain"]]["nodes"], [server], "its gradients stay in the server of its replicas")
            run.end()
            self.nothing_left()

    def test_a_plan_that_cannot_be_served_is_refused_with_the_reason(self):
        self.cluster(("b",))
        text = self.ctl("plan", "set", self.plan({"a": 40000, "b": 20000, "elsewhere": 5536}), status=2)
        self.assertIn('no members: "elsewhere"', text)
        path = self.place / "plan.json"
        deep = json.loads(Path(self.plan({"a": 40000, "b": 25536})).read_text())
        deep["domains"][0]["classes"][0]["trees"] = [{"w": 65536, "up": [1, 2, -1]}]
        path.write_text(json.dumps(deep))
        self.ctl("plan", "set", str(path), "--job", "deep")
        run = self.perf(self.address("a"), *SIZES, "--job", "deep")
        text = run.finish(None)
        self.assertNotEqual(run.poll(), 0)
        self.assertRegex(text, "the plan's domain \"all\" has 1 workers and the job 3 ranks")
        self.assertTrue(self.rows(self.address("a")), "other jobs form as before")

    def test_a_model_is_even_over_nodes_of_uneven_speed(self):
        names = "abcdefgh"
        speeds = [10, 25, 14, 40, 31, 100, 22, 56]
        weights = [65536 * speed // sum(speeds) for speed in speeds]
        weights[0] += 65536 - sum(weights)
        # Without the table one node would have 6% more than its share.
        self.cluster(*((name,) for name in names[1:]), shards=1, coordinator=("--split-bytes", "1MiB"))
        model = json.loads((Path(__file__).parents[2] / "perf/workloads/resnet50.json").read_text())
        sizes = [4 * math.prod(shape) for _, shape in model["tensors"]]
        self.assertEqual(len(sizes), 161)
        self.ctl("plan", "set", self.plan(dict(zip(names, weights)), tensors=enumerate(sizes)))
        self.run_perf("--model", "resnet50", "--mode", "tensors", "--iters", "1", "--warmup", "0")
        pulled = self.pulled()
        total = sum(pulled.values())
        for name, weight in zip(names, weights):
            self.assertAlmostEqual(pulled[name] / (total * weight / 65536), 1, delta=0.01, msg=f"{name} of {pulled}")


if __name__ == "__main__":
    run_tests(("ManyNodes.test_a_node_that_is_killed_is_named_and_the_others_serve_on",
               "ManyNodes.test_a_job_forms_again_smaller_and_larger"))
