#!/usr/bin/env python3
"""Counts what `meson test` did in a build folder, test case by test case.

usage: count_results.py clear  BUILD               before a run: forget the last one
       count_results.py select BUILD PATTERN       names of the tests that fit the pattern
       count_results.py count  BUILD LABEL STATUS  after `meson test` exited with STATUS: prints one
                                                   item a line, in JSON, with the build's LABEL
       count_results.py sum    FILE                what did not pass, and the last line, from items

Each case of a gtest binary counts; any other test counts as one. A binary that fails although none of its cases
failed (it crashed, or a sanitizer stopped it) counts as one more failure.
"""

import fnmatch
import json
import re
import signal
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
MESON_PASSED = {"OK", "EXPECTEDFAIL"}
MESON_SKIPPED = {"SKIP"}
REASON_LINES = 12

_SANITIZER = re.compile(r"^SUMMARY: (\w+Sanitizer: .*)$", re.MULTILINE)
_RUNNING = re.compile(r"^\[ RUN      \] (\S+)$", re.MULTILINE)


def item(outcome: str, label: str, name: str, reason: str = "") -> dict:
    return {"outcome": outcome, "build": label, "name": name, "reason": reason}


def load_tests(build: Path) -> list[dict]:
    with open(build / "meson-info" / "intro-tests.json", encoding="utf-8") as file:
        return json.load(file)


def cases_file(build: Path, test: dict) -> Path:
    """Returns the file to which a gtest binary writes its cases under meson."""
    return Path(test.get("workdir") or build) / f"{test['name']}.xml"


def log_file(build: Path) -> Path:
    return build / "meson-logs" / "testlog.json"


def clear(build: Path) -> None:
    log_file(build).unlink(missing_ok=True)
    for test in load_tests(build):
        if test.get("protocol") == "gtest":
            cases_file(build, test).unlink(missing_ok=True)


def select(build: Path, pattern: str) -> list[str]:
    """Returns the names that contain the pattern, or match it when it has wildcards."""
    wild = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    return [t["name"] for t in load_tests(build) if fnmatch.fnmatchcase(t["name"], wild)]


def gtest_items(path: Path, label: str, test_name: str) -> list[dict]:
    try:
        root = xml.parse(path).getroot()
    except (OSError, xml.ParseError):  # the binary ended before it wrote them
        return []
    found = []
    for case in root.iter("testcase"):
        name = f"{test_name}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        failure = case.find("failure")
        if failure is not None:
            text = (failure.text or failure.get("message") or "").strip().split("\n")
            found.append(item(FAILED, label, name, "\n    ".join(["", *text[:REASON_LINES]])))
        elif skipped is not None:
            lines = (skipped.get("message") or skipped.text or "").strip().split("\n")
            # When gtest gives the place, it is the first line.
            reason = lines[1] if len(lines) > 1 and ":" in lines[0] else lines[0]
            found.append(item(SKIPPED, label, name, reason))
        elif case.get("status") == "run" or case.get("result") == "completed":
            found.append(item(PASSED, label, name))  # not disabled, and not filtered out
    return found


def last_line(entry: dict) -> str:
    for stream in ("stdout", "stderr"):
        lines = (entry.get(stream) or "").strip().split("\n")
        if lines[-1]:
            return lines[-1].strip()
    return "no reason given"


def how_it_ended(entry: dict) -> str:
    """Returns, for a test that failed as a whole, the exit status and the gtest case that was running."""
    status = entry["returncode"]
    if status < 0:
        text = f"killed by {signal.Signals(-status).name}"
    else:
        text = f"exit status {status}"
    if entry["result"] == "TIMEOUT":
        text = f"no end after {entry['duration']:.0f} s"
    output = entry.get("stdout") or ""
    running = _RUNNING.findall(output)
    if running and not re.search(rf"^\[(       OK|  FAILED|  SKIPPED) \] {re.escape(running[-1])}",
                                 output, re.MULTILINE):
        text += f", in {running[-1]}"
    finding = _SANITIZER.search(output + (entry.get("stderr") or ""))
    return f"{text} ({finding[1]})" if finding else text


def bare_name(logged: str, known: dict[str, dict]) -> str:
    """Returns the name of a test, which the log calls `name` or `project:suite / name`."""
    return logged if logged in known else logged.split(" / ", 1)[-1]


def count(build: Path, label: str, status: int) -> list[dict]:
    known = {test["name"]: test for test in load_tests(build)}
    items = []
    try:
        lines = log_file(build).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        entry = json.loads(line)
        name = bare_name(entry["name"], known)
        test = known.get(name, {"name": name})
        cases = []
        if test.get("protocol") == "gtest" and entry["result"] not in MESON_SKIPPED:
            cases = gtest_items(cases_file(build, test), label, name)
        items += cases
        if entry["result"] in MESON_SKIPPED:
            items.append(item(SKIPPED, label, name, last_line(entry)))
        elif entry["result"] in MESON_PASSED:
            if not cases:
                items.append(item(PASSED, label, name))
        elif not any(case["outcome"] == FAILED for case in cases):
            items.append(item(FAILED, label, name, how_it_ended(entry)))
    if status != 0 and not any(i["outcome"] == FAILED for i in items):
        items.append(item(FAILED, label, "meson test", f"exit status {status}"))
    return items


def describe(entry: dict) -> str:
    reason = entry["reason"]
    separator = "" if not reason else ":" if reason.startswith("\n") else ": "
    return f"  [{entry['build']}] {entry['name']}{separator}{reason}"


def totals(items: list[dict]) -> str:
    numbers = [sum(i["outcome"] == o for i in items) for o in (PASSED, FAILED, SKIPPED)]
    return "{} passed, {} failed, {} skipped".format(*numbers)


def report(items: list[dict]) -> str:
    """Returns a text with everything that did not pass, then the totals."""
    lines = []
    for outcome in (SKIPPED, FAILED):
        some = [describe(i) for i in items if i["outcome"] == outcome]
        if some:
            lines += [f"{outcome}:", *dict.fromkeys(some)]
    return "\n".join([*lines, totals(items)])


def main() -> int:
    action, *rest = sys.argv[1:] or ["help"]
    if action == "clear" and len(rest) == 1:
        clear(Path(rest[0]))
    elif action == "select" and len(rest) == 2:
        for name in select(Path(rest[0]), rest[1]):
            print(name)
    elif action == "count" and len(rest) == 3:
        items = count(Path(rest[0]), rest[1], int(rest[2]))
        for entry in items:
            print(json.dumps(entry))
        print(f"{rest[1]}: {totals(items)}", file=sys.stderr)
    elif action == "sum" and len(rest) == 1:
        lines = Path(rest[0]).read_text(encoding="utf-8").splitlines()
        items = [json.loads(line) for line in lines]
        print(report(items))
        failed = any(i["outcome"] == FAILED for i in items)
        return 1 if failed or not any(i["outcome"] == PASSED for i in items) else 0
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
