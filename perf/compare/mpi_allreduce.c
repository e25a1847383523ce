/* An all-reduce of floats, out of place, timed as tally-perf times it: of each iteration the
 * slowest rank counts. Rank 0 prints one JSON object. The same source for every MPI.
 *
 * usage: mpi_allreduce BYTES ITERATIONS WARMUP */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "reference.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    fprintf(stderr, "usage: mpi_allreduce BYTES ITERATIONS WARMUP\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t count = strtoull(argv[1], NULL, 10) / sizeof(float);
  const int iterations = atoi(argv[2]), warmup = atoi(argv[3]);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* in = malloc(count * sizeof(float));
  float* out = calloc(count, sizeof(float));
  double* times = malloc((size_t)iterations * sizeof(double));
  if (in == NULL || out == NULL || times == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  for (size_t i = 0; i < count; ++i) in[i] = gradient(rank, i);

  for (int i = -warmup; i < iterations; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (i >= 0) times[i] = (MPI_Wtime() - start) * 1e6;
  }
  MPI_Allreduce(MPI_IN_PLACE, times, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  long long wrong = count_wrong(out, count, ranks);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) report(wrong, times, iterations);
  MPI_Finalize();
  return wrong != 0;
}
