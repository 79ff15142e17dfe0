// SPDX-License-Identifier: Apache-2.0
// One of two ranks of a peer: MPI, measured as hosts_bench measures ours. mpi_hosts BYTES...
// Compiled by tests/bench/hosts.py with each mpicc that is installed.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_calls = 100000, first_calls = 3, fewest_calls = 8 };
static const double measured_for_s = 0.15;

static int rank;
static float *one, *other, *two, *out;
static int count;

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void all_reduce(void) {
    MPI_Allreduce(MPI_IN_PLACE, one, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void all_gather(void) {
    MPI_Allgather(one, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void reduce_scatter(void) {
    MPI_Reduce_scatter_block(two, one, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void all_to_all(void) {
    MPI_Alltoall(two, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void reduce(void) {
    for (int root = 0; root < 2; ++root)
        MPI_Reduce(one, other, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
}
static void broadcast(void) {
    for (int root = 0; root < 2; ++root)
        MPI_Bcast(one, count, MPI_FLOAT, root, MPI_COMM_WORLD);
}
static void gather(void) {
    for (int root = 0; root < 2; ++root)
        MPI_Gather(one, count, MPI_FLOAT, out, count, MPI_FLOAT, root, MPI_COMM_WORLD);
}
static void scatter(void) {
    for (int root = 0; root < 2; ++root)
        MPI_Scatter(two, count, MPI_FLOAT, one, count, MPI_FLOAT, root, MPI_COMM_WORLD);
}
static void message(void) {
    for (int root = 0; root < 2; ++root) {
        if (root == rank)
            MPI_Send(one, count, MPI_FLOAT, 1 - root, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(other, count, MPI_FLOAT, root, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/// Prints the median time in microseconds of one of the `calls` that `once` makes, as the slower rank sees it.
static void measure(const char *what, int bytes, int calls, void (*once)(void)) {
    static double times[most_calls];
    int taken = 0;
    const double until = MPI_Wtime() + measured_for_s;
    for (int i = 0; i < most_calls; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        once();
        double both[2] = {MPI_Wtime() - start, MPI_Wtime() >= until && i >= fewest_calls};
        MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= first_calls) times[taken++] = both[0] * 1e6 / calls;
        if (both[1] > 0) break;
    }
    qsort(times, (size_t)taken, sizeof *times, compare);
    if (rank == 0) printf("%s %d %.2f\n", what, bytes, times[taken / 2]);
}

static float *zeros(size_t n) {
    float *data = malloc(n * sizeof *data);
    if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    return memset(data, 0, n * sizeof *data);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; ++i) {
        const int bytes = atoi(argv[i]);
        count = bytes / (int)sizeof(float);
        one = zeros((size_t)count);
        other = zeros((size_t)count);
        two = zeros(2 * (size_t)count);
        out = zeros(2 * (size_t)count);
        measure("barrier", bytes, 1, barrier);
        measure("all_reduce", bytes, 1, all_reduce);
        measure("all_gather", bytes, 1, all_gather);
        measure("reduce_scatter", bytes, 1, reduce_scatter);
        measure("all_to_all", bytes, 1, all_to_all);
        measure("reduce", bytes, 2, reduce);
        measure("broadcast", bytes, 2, broadcast);
        measure("gather", bytes, 2, gather);
        measure("scatter", bytes, 2, scatter);
        measure("send", bytes, 2, message);
        free(one);
        free(other);
        free(two);
        free(out);
    }
    MPI_Finalize();
    return 0;
}
