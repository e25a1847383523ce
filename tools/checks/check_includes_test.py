#!/usr/bin/env python3
"""check_includes.py finds forbidden includes, and nothing else."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from checks import check_includes  # noqa: E402
from lib import planted  # noqa: E402


class Includes(planted.PlantedTest):
    def problems(self, *expected: str) -> None:
        _, found = check_includes.check(self.root)
        self.assertEqual(len(found), len(expected), found)
        for problem, start in zip(found, expected):
            self.assertTrue(problem.startswith(start), problem)

    def test_downwards_is_fine(self):
        self.plant("base/status.h", "#include <string>\n")
        self.plant("base/element.h", '#include "base/status.h"\n')
        self.plant("dataplane/wire/notice.h", '#include "base/element.h"\n')
        self.plant("dataplane/transport/transport.h", '#include "dataplane/wire/notice.h"\n')
        self.plant("dataplane/engine/shard.cc", '#include "dataplane/transport/transport.h"\n')
        self.plant("control/daemon/tallyd.cc", '#include "dataplane/engine/shard.h"\n#include <asio.hpp>\n')
        self.problems()

    def test_upwards_is_found(self):
        self.plant("base/status.h", '#include "summation/types.h"\n')
        self.problems("base/status.h:1: base may not include summation/types.h")

    def test_upwards_by_a_relative_path_is_found(self):
        self.plant("summation/types.h", "")
        self.plant("base/status.h", '\n#  include "../summation/types.h"\n')
        self.problems("base/status.h:2: base may not include summation/types.h")

    def test_rows_are_not_transitive(self):
        self.plant("dataplane/wire/notice.h", '#include "summation/reduce.h"\n')
        self.problems("dataplane/wire/notice.h:1: dataplane/wire may not include summation/reduce.h")

    def test_engine_sees_the_seam_and_no_transport(self):
        self.plant("dataplane/engine/a.cc", '#include "dataplane/transport/transport.h"\n'
                                            '#include "dataplane/transport/shm/ring.h"\n')
        self.problems("dataplane/engine/a.cc:2:")

    def test_client_sees_the_cut_and_no_more_of_protocol(self):
        self.plant("client/session/a.cc", '#include "dataplane/partition/partition.h"\n'
                                          '#include "dataplane/protocol/match.h"\n')
        self.problems("client/session/a.cc:2:")

    def test_interface_headers_are_found_on_their_own_path(self):
        self.plant("client/include/tally/tally.h", "")
        self.plant("gpu_bridge/group/a.cc", "#include <tally/tally.h>\n")
        self.plant("dataplane/engine/a.cc", "#include <tally/tally.h>\n")
        self.problems("dataplane/engine/a.cc:1:")

    def test_tests_may_use_what_is_below_and_helpers(self):
        self.plant("dataplane/engine/a_test.cc", '#include "tests/support/transport/faulty.h"\n'
                                                 '#include "tests/helpers.h"\n')
        self.plant("base/a_test.cc", '#include "control/daemon/daemon.h"\n')
        self.problems("base/a_test.cc:1:")

    def test_a_folder_without_a_row_is_found(self):
        self.plant("control/a.cc", "")
        self.plant("base/a.cc", '#include "control/a.h"\n')
        self.problems("control/a.cc: its folder has no row", "base/a.cc:1: base may not include control/a.h")

    def test_foreign_headers_have_their_places(self):
        self.plant("dataplane/transport/verbs/qp.cc", "#include <infiniband/verbs.h>\n")
        self.plant("dataplane/engine/eal.cc", "#include <rte_eal.h>\n#include <rte_ethdev.h>\n")
        self.plant("client/session/a.cc", "#include <nlohmann/json.hpp>\n#include <infiniband/verbs.h>\n")
        self.plant("base/a.cc", "#include <asio/io_context.hpp>\n#include <immintrin.h>\n")
        self.problems("base/a.cc:1: <asio/io_context.hpp>", "client/session/a.cc:2: <infiniband/verbs.h>",
                      "dataplane/engine/eal.cc:2: <rte_ethdev.h>")

    def test_every_row_names_units_that_stand_before_it(self):
        order = list(check_includes.MAY_USE)
        for unit, row in check_includes.MAY_USE.items():
            for used in row:
                if used == check_includes.ALL:
                    continue
                below = check_includes.unit_of(used)
                self.assertIsNotNone(below, f"{unit}: {used}")
                self.assertLess(order.index(below), order.index(unit), f"{unit}: {used}")

    def test_the_map_shows_the_same_table(self):
        text = (planted.ROOT / "docs" / "map.md").read_text(encoding="utf-8")
        for row in check_includes.table():
            self.assertIn(row, text, "paste what check_includes.py --table prints into docs/map.md")


if __name__ == "__main__":
    planted.main()
