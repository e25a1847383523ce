#!/usr/bin/env python3
"""tallyctl and whom it asks: members name their coordinator, and what a node answers may be of any shape.

usage: tallyctl_test.py TALLYD TALLYCTL TALLY_PERF
"""

import json
import socket
import threading
import time

from nodes import TIMEOUT, Cluster, run_tests


class Impostor:
    """Answers every method with the same."""

    def __init__(self, path: str, answer):
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(TIMEOUT)
        self.thread = threading.Thread(target=self.serve)

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                reply = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": self.answer}
                print(json.dumps(reply), file=lines, flush=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.thread.join()
        self.listener.close()


class Tallyctl(Cluster):
    def test_a_member_leads_to_the_coordinator(self):
        self.cluster(("b",))
        names = [node["name"] for node in json.loads(self.ctl("--json", "nodes", node="b"))]
        self.assertEqual(names, ["a", "b"])
        self.ctl("plan", "set", self.plan({"b": 65536}), node="b")
        for node in ("a", "b"):
            self.assertIn("set for all jobs", self.ctl("plan", "show", node=node))
        self.assertIn("serves nothing any more", self.ctl("drain", "b", node="b"))
        self.assertIn("draining", self.ctl("nodes"))

    def test_all_members_have_the_time_outs_of_their_coordinator(self):
        self.cluster(("b", "--fault-timeout", "30"), coordinator=("--fault-timeout", "20"))
        until = time.monotonic() + TIMEOUT
        for node in ("a", "b"):
            while (status := json.loads(self.ctl("--json", "status", node=node)))["timeouts"]["fault_ms"] != 20_000:
                self.assertLess(time.monotonic(), until, status["timeouts"])
                time.sleep(0.02)
            self.assertEqual(status["timeouts"]["deadline_ms"], 20_000)
            self.assertEqual(status["timeouts"]["node_silence_ms"], 10_000)
            self.assertRegex(self.ctl("status", node=node), r"time-outs +fault 20 s, deadline 20 s, repair 20 s, ")

    def test_a_member_leads_top_and_probe_to_all_nodes(self):
        self.cluster(("b",), shards=1)
        top = ("--json", "top", "--once", "--interval", "0.1")
        view = json.loads(self.ctl(*top, node="b"))
        self.assertEqual(sorted(node["node"] for node in view["nodes"]), ["a", "b"])
        self.assertEqual(view["coordinator"], self.address("a"))
        done = self.tallyctl("--json", "probe", "--no-pairs", "--seconds", "0.05", node="b")
        self.assertEqual([one["name"] for one in json.loads(done.stdout)["machines"]], ["a", "b"], done.stderr)
        self.nodes["a"].kill()
        view = json.loads(self.ctl(*top, node="b"))
        self.assertEqual([node["node"] for node in view["nodes"]], [self.address("b")], "nobody says who else there is")

    def test_a_node_that_stands_alone_has_no_members_and_no_plans(self):
        self.start("alone")
        self.assertIn("no members", self.ctl("nodes", node="alone"))
        for words in (("plan", "show"), ("plan", "set", self.plan({"b": 65536})), ("drain", "b")):
            output = self.ctl(*words, node="alone", status=1)
            self.assertIn("is no coordinator", output)
            self.assertIn("give the coordinator's --address", output)

    def test_a_trace_of_nothing_leaves_the_file_of_another(self):
        self.start("alone")
        file = self.place / "trace.json"
        file.write_text("good")
        output = self.ctl("trace", "bert", "--seconds", "0.05", "--out", str(file), node="alone", status=1)
        self.assertIn('"bert"', output)
        self.assertEqual(file.read_text(), "good")
        self.assertEqual(list(self.place.glob(".tally-*")), [])
        self.assertIn("give another --out", self.ctl("trace", "bert", "--out", f"{self.place}/no/f", node="alone", status=1))

    def test_what_was_mistyped_is_suggested(self):
        self.start("a")
        for words, meant in ((["statsu"], "status"), (["plan", "shwo"], "show"), (["--jsn", "status"], "--json"),
                             (["doctor", "--chek", "rdma"], "--check")):
            output = self.tallyctl(*words)
            self.assertEqual((output.returncode, output.stdout), (2, ""))
            self.assertIn(f'did you mean "{meant}"?', output.stderr)

    def test_a_slip_of_the_pen_takes_no_plan_back(self):
        self.cluster(("b",))
        self.ctl("plan", "set", self.plan({"b": 65536}), "--job", "bert")
        output = self.ctl("plan", "set", "--closed-form", "--job", "brt", status=2)
        self.assertIn('no job "brt" runs here', output)
        self.assertIn('with plans of their own: "bert"', output)
        self.assertIn("taken back", self.ctl("plan", "set", "--closed-form", "--job", "bert"))

    def test_plans_are_examined_without_a_node(self):
        files = [str(self.place / f"{name}.json") for name in ("first", "second")]
        workers = [word for name in "abc" for word in ("--worker", f"{name}=1GB")]
        self.ctl("plan", "make", *workers, "--out", files[0])
        self.ctl("plan", "make", *workers, "--helper", "s=1GB", "--out", files[1])
        self.assertIn("one more helper at switch 3", self.ctl("plan", "explain", files[0]))
        self.assertIn("second / first", self.ctl("plan", "compare", *files))
        self.assertTrue(self.ctl("plan", "draw", files[1]).startswith("digraph trees {"))
        rows = json.loads(self.ctl("--json", "plan", "sim", files[0], "--bytes", "1M"))["rows"]
        self.assertGreaterEqual(rows[0]["ratio"], 1)
        with open("/dev/full", "w") as full:
            for words in (("plan", "check", files[0]), ("plan", "draw", files[0]), ("plan", "make", *workers),
                          ("token", "secret", str(self.place / "secret")), ("doctor", "--list")):
                done = self.tallyctl(*words, stdout=full)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn("tallyctl: stdout: cannot be written: No space left on device\n", done.stderr)
        for words in (("explain", "none"), ("compare", files[0], "none"), ("draw", "none"), ("sim", "none")):
            with self.subTest(words=words):
                self.assertIn("none: cannot be read", self.ctl("plan", *words, status=2))

    def test_an_answer_of_another_shape_is_an_error_that_names_the_node(self):
        trace = ("trace", "bert", "--seconds", "0.05", "--out", str(self.place / "trace.json"))
        plan = self.plan({"b": 65536})
        for number, answer in enumerate((7, [7], "text", {"shards": 7, "waiting": 7, "text": 7, "domains": 7})):
            for words in (("status",), ("jobs",), ("ranks",), ("nodes",), ("stats",), trace, ("plan", "show"),
                          ("plan", "set", plan), ("drain", "b", "--wait", "1")):
                name = f"{words[0]}{words[1][:4] if words[0] == 'plan' else ''}{number}"
                with self.subTest(words=words, answer=answer), Impostor(f"{self.place}/{name}.sock", answer):
                    done = self.tallyctl(*words, node=name)
                    self.assertIn(done.returncode, (0, 1))  # or it makes something of that
                    if done.returncode == 1:
                        self.assertRegex(done.stderr, f"{name}.sock answered what is not understood: |plan cannot be read")


if __name__ == "__main__":
    run_tests()
