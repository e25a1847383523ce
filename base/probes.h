// USDT probes, to which perf and bpftrace can attach while the program runs. docs/metrics.md has
// their arguments and examples. A probe is one no-op instruction while no tool is attached. Without
// <sys/sdt.h> at build time, a probe is no code at all.
#pragma once

#if defined(TALLY_HAVE_SDT)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
// TALLY_PROBE(name, argument...): at most 12 integer arguments.
#define TALLY_PROBE(...) STAP_PROBEV(tally, __VA_ARGS__)
#else
#define TALLY_PROBE(...) static_cast<void>(0)
#endif
