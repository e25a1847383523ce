/* Sums a vector over all ranks: allreduce RANK RANKS. Start one process per rank. */
#include <stdio.h>
#include <stdlib.h>
#include <tally/tally.h>

#define COUNT 1000000

static void check(tally_status status, const tally_session* session, const char* what) {
  if (status == TALLY_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, tally_status_name(status), tally_last_error(session));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: allreduce RANK RANKS (the node's address is $TALLY_ADDRESS)\n");
    return 2;
  }
  tally_session_options options = {.size = sizeof options};
  options.job = "example-c";
  options.rank = (uint32_t)atoi(argv[1]);
  options.ranks = (uint32_t)atoi(argv[2]);
  tally_session* session = NULL;
  check(tally_open(&options, &session), NULL, "open");

  /* Memory that the node reads and writes in place. */
  tally_region* region = NULL;
  void* data = NULL;
  check(tally_region_alloc(session, COUNT * sizeof(float), &region, &data), session, "alloc");
  float* gradient = data;
  for (int i = 0; i < COUNT; ++i) gradient[i] = (float)(options.rank + 1);

  tally_operation operation = {.size = sizeof operation};
  operation.kind = TALLY_ALL_REDUCE;
  operation.type = TALLY_F32;
  operation.op = TALLY_SUM;
  operation.tag = 1;
  operation.count = COUNT;
  operation.in = operation.out = (tally_buffer){region, 0};
  check(tally_post(session, &operation), session, "post");

  tally_completion completion = {.size = sizeof completion};
  check(tally_wait(session, &completion, -1), session, "wait");
  if (completion.status != TALLY_OK) {
    fprintf(stderr, "%s\n", completion.message);
    return 1;
  }
  const float expected = (float)(options.ranks * (options.ranks + 1) / 2);
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += gradient[i] != expected;
  printf("rank %u: sum %g, %d wrong of %d\n", options.rank, gradient[0], wrong, COUNT);
  tally_close(session);
  return wrong != 0;
}
