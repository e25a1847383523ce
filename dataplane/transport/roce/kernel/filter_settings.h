/* What the XDP program of filter.c knows of its port. C and C++ include this. */
#pragma once

/* Stands before the settings in the program's file. */
#define TALLY_FILTER_MARKER "tally settings:"

/* Addresses as packets have them, in words that the program compares. */
struct FilterSettings {
  char marker[sizeof TALLY_FILTER_MARKER];
  unsigned int address[4]; /* IPv4: the last one alone */
  unsigned short mac[3];
  unsigned short is_ipv4;
};

#ifdef __cplusplus
static_assert(sizeof(FilterSettings) == 16 + 16 + 6 + 2);
#endif
