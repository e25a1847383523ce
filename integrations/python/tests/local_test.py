"""Nodes of a training's own: found by all its processes, started once, gone with the last."""

import os
import shutil
import signal
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import group
from own_nodes import WithNodesOfItsOwn, wait_for

import tally
from tally import local

SESSION = """
import numpy, tally
with tally.connect(deadline=20) as session:
    found = session.all_reduce(numpy.ones(3)).wait()
    assert (found == session.ranks).all()
    session.barrier().wait()
"""


class OwnNodes(WithNodesOfItsOwn):
    def setUp(self):
        super().setUp()
        os.environ["MASTER_PORT"] = "12345"

    def tearDown(self):
        os.environ.pop("MASTER_PORT", None)
        super().tearDown()

    def test_all_find_the_same(self):
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(lambda _: local.own_node(), range(4)))
        self.assertEqual(len(found), 1)
        self.assertEqual(len(self.nodes()), 1)
        os.environ["MASTER_PORT"] = "12346"
        self.assertNotIn(local.own_node(), found, "another training has another node")

    def test_a_dead_one_is_replaced(self):
        first = local.own_node()
        node = self.nodes()[0]
        keeper = int(Path(f"/proc/{node}/stat").read_text().rsplit(")", 1)[1].split()[1])
        for process in (keeper, node):  # so that nobody tidies up
            os.kill(process, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{node}").exists(), "the node is dead")
        second = local.own_node()
        shutil.rmtree(Path(first.removeprefix("unix:")).parent)
        self.assertNotEqual(first, second)
        self.assertEqual(local.own_node(), second)

    def test_one_that_does_not_answer_is_replaced_once(self):
        first = local.own_node()
        stopped = self.nodes()
        os.kill(stopped[0], signal.SIGSTOP)
        second = local.own_node(instead_of=first)
        self.assertNotEqual(first, second)
        self.assertEqual(local.own_node(instead_of=first), second)
        os.kill(stopped[0], signal.SIGCONT)

    def test_ranks_without_torch_share_it(self):
        processes = group.start_ranks([sys.executable, "-c", SESSION], 3)
        outputs = group.outputs(processes)
        self.assertEqual([process.poll() for process in processes], [0, 0, 0], outputs)

    def test_ranks_elsewhere_need_an_address(self):
        done = subprocess.run([sys.executable, "-c", SESSION], text=True, capture_output=True,
                              check=False, timeout=60,
                              env={**os.environ, "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"})
        self.assertIn("TALLY_ADDRESS", done.stderr)
        with self.assertRaisesRegex(tally.Error, "MASTER_PORT"):
            os.environ.pop("MASTER_PORT")
            tally.connect(rank=0, ranks=2)

    def test_a_node_that_does_not_start_gives_the_reason(self):
        program = os.environ["TALLYD"]
        try:
            for wrong in ("/nowhere/tallyd", "/bin/false"):
                os.environ["TALLYD"] = wrong
                with self.assertRaises(tally.Error) as raised:
                    local.own_node()
                self.assertEqual(raised.exception.status, "unavailable")
                self.assertIn("tallyd did not start", str(raised.exception))
        finally:
            os.environ["TALLYD"] = program

    def test_a_link_of_another_user_is_not_followed(self):
        address = local.own_node()
        links = [entry for entry in Path(self.place.name).iterdir() if entry.is_symlink()]
        self.assertEqual(len(links), 1)
        if os.geteuid() != 0:
            self.skipTest("only root can make a link of somebody else's")
        os.lchown(links[0], 65534, 65534)
        with self.assertRaises(tally.Error):
            local.own_node()
        os.lchown(links[0], 0, 0)
        self.assertEqual(local.own_node(), address)


if __name__ == "__main__":
    group.WarmProgram.imports = ()
    unittest.main(verbosity=2)
