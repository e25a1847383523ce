// Points in the code that perf and bpftrace can hook into while it runs (USDT; docs/metrics.md has
// their arguments and examples). Each is one no-op instruction until somebody does; where
// <sys/sdt.h> was not there at build time, nothing at all.
#pragma once

#if defined(TALLY_HAVE_SDT)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
// TALLY_PROBE(name, argument...): at most 12 arguments, integers.
#define TALLY_PROBE(...) STAP_PROBEV(tally, __VA_ARGS__)
#else
#define TALLY_PROBE(...) static_cast<void>(0)
#endif
