#!/usr/bin/env python3
"""Figures of papers, beside those that Tally's planners and simulator compute. docs/papers.md has the tables.

usage: tables.py byteps|forests|pipelines|groups|all [--build DIR] [--pipedream DIR] [--json FILE]

--pipedream: profiler/image_classification/profiles of a clone of PipeDream; pipelines also has a table of these profiles.

It needs tallyctl and tally-perf of a build, and Python alone; no node and no GPU.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import byteps  # noqa: E402
import forests  # noqa: E402
import groups  # noqa: E402
import pipelines  # noqa: E402
from programs import Programs  # noqa: E402

PAPERS = {"byteps": byteps, "forests": forests, "pipelines": pipelines, "groups": groups}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paper", choices=[*PAPERS, "all"])
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build", metavar="DIR")
    parser.add_argument("--pipedream", type=Path, metavar="DIR", help="profiles of PipeDream, for another table of pipelines")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables there, too")
    arguments = parser.parse_args()
    tallyctl, tally_perf = arguments.build / "control/tallyctl", arguments.build / "perf/tally-perf"
    for program in (tallyctl, tally_perf):
        if not program.exists():
            parser.error(f"--build {arguments.build}: there is no {program}; tools/build makes it")
    if arguments.pipedream and arguments.paper not in ("pipelines", "all"):
        parser.error("--pipedream needs pipelines or all")
    if arguments.pipedream and (missing := pipelines.missing_in(arguments.pipedream)):
        parser.error(f"--pipedream {arguments.pipedream}: there is no {missing}; give profiler/image_classification/profiles of "
                     "a clone of PipeDream")
    with Programs(tallyctl, tally_perf) as programs:
        made = [table for name, module in PAPERS.items() if arguments.paper in (name, "all") for table in module.tables(programs)]
        if arguments.pipedream:
            made.append(pipelines.measured(programs, arguments.pipedream))
    print("\n".join(table.text() for table in made), end="")
    if arguments.json:
        arguments.json.write_text(json.dumps([table.as_json() for table in made], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
