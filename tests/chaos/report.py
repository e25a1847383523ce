"""What a chaos run found: for people, and as JSON."""

import math
from collections import defaultdict
from dataclasses import asdict, dataclass, field

import stalls

QUANTILES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))


@dataclass
class Findings:
    """What must not be. Each is a line."""
    failed_operations: list = field(default_factory=list)  # of jobs that should have survived
    hangs: list = field(default_factory=list)
    others: list = field(default_factory=list)             # crashes, and what is left behind

    @property
    def all(self) -> list:
        return [*self.failed_operations, *self.hangs, *self.others]


@dataclass
class Stretch:
    """Part of a run: begin and end on the monotonic clock, and the operations that ended in it."""
    begin: float
    end: float = 0.0
    operations: int = 0

    @property
    def per_second(self) -> float:
        return self.operations / (self.end - self.begin) if self.end > self.begin else 0.0


def line(injected, stall_s: float, lasts: bool) -> str:
    """lasts: the stall may not be over."""
    what = f"{injected.fault}"
    if injected.skipped:
        return f"{what}: not injected, {injected.skipped}"
    who = f" ({injected.victim}{', the coordinator' if injected.coordinates else ''})" \
        if injected.fault.target in ("coordinator", "nodes") else ""
    return f"{what}{who}: stalled for {'at least ' if lasts else ''}{1000 * stall_s:.0f} ms; the job {injected.promise}"


def stalled(record, slow_s: float) -> list:
    return [*record.outages, *(span for span in record.spans if span[1] - span[0] >= slow_s)]


def fault_stalls(injected: list, record, until: float = math.inf, also: tuple = ()) -> list:
    """Seconds, for each fault, of what began until then. A time without a job counts as a stall. also: more spans."""
    spans = [span for span in (*record.spans, *record.outages, *also) if span[0] <= until]
    return stalls.of_faults([one.at for one in injected], spans)


def quantiles(seconds: list) -> dict:
    """In milliseconds."""
    return {name: round(1000 * stalls.quantile(seconds, share), 1) for name, share in QUANTILES}


def rate_between_faults(options, injected: list, record, quiet: Stretch, faulty: Stretch) -> float:
    """Operations per second before the first fault, and between faults when each is over and its stall too."""
    faults = [(one.at, max(one.undone, one.at)) for one in injected if not one.skipped]
    return stalls.rate(record.progress, stalls.calm(faults, quiet.begin, faulty.end, options.settle))


def summary(options, injected: list, record, findings: Findings, quiet: Stretch, faulty: Stretch) -> dict:
    of_faults = fault_stalls(injected, record, faulty.end)
    by_kind = defaultdict(list)
    for one, stall in zip(injected, of_faults):
        if not one.skipped:
            by_kind[one.kind].append(stall)
    done = [stall for some in by_kind.values() for stall in some]
    between = rate_between_faults(options, injected, record, quiet, faulty)
    if options.least_throughput and faulty.per_second < options.least_throughput * between:
        findings.others.append(f"the throughput is {faulty.per_second / between:.3f} of that before and between the faults, "
                               f"less than {options.least_throughput:g}")
    first_job = record.outages[1:]  # the first one is the start of the run
    return {
        "seed": options.seed, "command": options.command, "load": options.load,
        "faults": [{**asdict(one.fault), "victim": one.victim, "skipped": one.skipped, "promise": one.promise,
                    "stall_ms": round(1000 * stall, 1)} for one, stall in zip(injected, of_faults)],
        "injected": len(done), "skipped": len(injected) - len(done),
        "operations": record.operations, "wrong_elements": record.wrong,
        "failed_operations": len(findings.failed_operations), "hangs": len(findings.hangs),
        "other_findings": len(findings.others), "excused_operations": record.excused, "repairs": record.repairs,
        "jobs": record.jobs, "seconds": round(faulty.end - faulty.begin, 1), "outages": len(first_job),
        "outage_seconds": round(stalls.covered(first_job, faulty.begin, faulty.end), 2),
        "availability": round(stalls.availability(stalled(record, options.slow_ms / 1000), faulty.begin, faulty.end), 5),
        "slow_ms": options.slow_ms, "operations_per_second": round(faulty.per_second, 1),
        "operations_per_second_without_faults": round(quiet.per_second, 1),
        "throughput": round(faulty.per_second / quiet.per_second, 3) if quiet.per_second else 0.0,
        "operations_per_second_between_faults": round(between, 1),
        "throughput_between_faults": round(faulty.per_second / between, 3) if between else 0.0,
        **({"curve": record.curve} if record.curve else {}),
        "returns": len(record.returns), "return_ms": quantiles(record.returns), "refused": record.refused,
        "stall_ms": quantiles(done),
        "stall_ms_by_kind": {kind: {"faults": len(some), **quantiles(some)} for kind, some in sorted(by_kind.items())},
        "findings": findings.all,
    }


def text(found: dict) -> str:
    def shown(some: dict) -> str:
        return ", ".join(f"{name} {some[name]:.0f} ms" for name, _ in QUANTILES)
    repairs = f"{found['repairs']} repairs; " if found["load"] == "c" else ""  # programs with torch do not count them
    lines = [
        f"seed {found['seed']}: {found['injected']} faults in {found['seconds']:.0f} s, {found['skipped']} not injected; "
        f"{repairs}{found['jobs']} jobs, {found['outages']} times without one "
        f"({found['outage_seconds']:.1f} s)",
        f"{found['operations']} operations, {found['wrong_elements']} wrong elements, {found['failed_operations']} failed "
        f"operations, {found['hangs']} hangs, {found['other_findings']} other findings; "
        f"{found['excused_operations']} failed as documented",
        f"availability {100 * found['availability']:.2f} %: the share of the time in which there was a job, and no operation "
        f"that lasts {found['slow_ms']} ms or more",
        f"throughput {100 * found['throughput']:.0f} % of that without faults: {found['operations_per_second']:.0f} of "
        f"{found['operations_per_second_without_faults']:.0f} operations/s",
        f"throughput {100 * found['throughput_between_faults']:.1f} % of that before the first fault and between faults: "
        f"{found['operations_per_second_between_faults']:.0f} operations/s",
        *([f"{found['returns']} returns of ranks: {shown(found['return_ms'])}; {len(found['refused'])} times refused"]
          if found["returns"] or found["refused"] else []),
        *([f"the loss is {100 * curve['difference']:.2f} % from that without faults; other batches: {100 * curve['noise']:.2f} %"]
          if (curve := found.get("curve")) else []),
        f"stalls, the longest of each fault: {shown(found['stall_ms'])}",
        *(f"  {kind}, {some['faults']}: {shown(some)}" for kind, some in found["stall_ms_by_kind"].items()),
    ]
    return "\n".join([*lines, *(f"FOUND {finding}" for finding in found["findings"])])
