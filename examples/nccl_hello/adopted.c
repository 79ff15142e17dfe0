/* SPDX-License-Identifier: Apache-2.0
 * What an NCCL program that was written for mpirun becomes: ranks, id and the word that a peer is
 * dead come from the launcher, all else stays. `nccl_adopted STEPS` adds up a million floats STEPS
 * times. */
#include <cuda_runtime.h>
#include <nccl.h>

#include <ddprun/ddprun.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000000

static int rank = -1;

/* Writes the error for the launcher's report, and prints it. */
static int fail(const char* what, const char* words) {
    char text[512];
    snprintf(text, sizeof text, "rank %d: %s: %s", rank, what, words);
    ddprun_record_error("NcclError", text);
    ddprun_print_error("NcclError", text);
    return 1;
}

/* Whether NCCL has an error, or the launcher has announced a stop (on every node, when a worker has
 * died). */
static int is_over(ncclComm_t comm, ncclResult_t* state) {
    if (ncclCommGetAsyncError(comm, state) != ncclSuccess) *state = ncclInternalError;
    return ddprun_should_stop(NULL) || (*state != ncclSuccess && *state != ncclInProgress);
}

static int abort_and_fail(ncclComm_t comm, ncclResult_t state) {
    ncclCommAbort(comm); /* its kernels leave the stream, which nothing else can make them do */
    return fail(
        "aborted",
        state == ncclSuccess || state == ncclInProgress ? "a peer is gone"
                                                        : ncclGetErrorString(state));
}

/* Called after every NCCL call on a non-blocking communicator; `called` is the call's result. */
static int await_ready(ncclComm_t comm, ncclResult_t called) {
    ncclResult_t state = ncclInProgress;
    if (called != ncclSuccess && called != ncclInProgress) return abort_and_fail(comm, called);
    while (!is_over(comm, &state) && state == ncclInProgress)
        sched_yield();
    return state == ncclSuccess ? 0 : abort_and_fail(comm, state);
}

/* Replaces cudaStreamSynchronize, which would wait for a dead peer for ever. */
static int await_stream(cudaStream_t stream, ncclComm_t comm) {
    ncclResult_t state = ncclSuccess;
    cudaError_t done;
    while ((done = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        if (is_over(comm, &state)) return abort_and_fail(comm, state);
        sched_yield();
    }
    return done == cudaSuccess ? 0 : fail("the GPU", cudaGetErrorString(done));
}

static int init_comm(const ddprun_world* world, ncclComm_t* comm) {
    ddprun_store* store;
    ncclUniqueId id;
    char* value;
    size_t bytes;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t called;
    if (ddprun_store_connect(world, 60000, &store)) return fail("store", ddprun_last_error());
    if (world->rank == 0 &&
        (ncclGetUniqueId(&id) != ncclSuccess || ddprun_store_set(store, "nccl_id", &id, sizeof id)))
        return fail("id", ddprun_last_error());
    if (ddprun_store_get(store, "nccl_id", 60000, &value, &bytes))
        return fail("id", ddprun_last_error());
    id = *(const ncclUniqueId*)value;
    ddprun_free(value);
    ddprun_store_free(store);
    config.blocking = 0;
    called = ncclCommInitRankConfig(comm, world->world_size, id, world->rank, &config);
    return *comm ? await_ready(*comm, called) : fail("init", ncclGetLastError(NULL));
}

int main(int count, char** arguments) {
    ddprun_world world = {.size = sizeof world};
    ncclComm_t comm = NULL;
    cudaStream_t stream;
    cudaError_t failed;
    float* data;
    int devices = 0;
    const long steps = count > 1 ? atol(arguments[1]) : 100;

    ddprun_should_stop(NULL); /* from here on a stop is noted, and does not end the process */
    if (ddprun_init(NULL, &world)) return fail("launcher", ddprun_last_error());
    rank = world.rank;
    failed = cudaGetDeviceCount(&devices);
    if (failed != cudaSuccess)
        return fail("no GPU, or no driver for it", cudaGetErrorString(failed));
    cudaSetDevice(world.local_rank % devices);
    if (cudaMalloc((void**)&data, COUNT * sizeof *data) != cudaSuccess ||
        cudaStreamCreate(&stream) != cudaSuccess)
        return fail("the GPU", cudaGetErrorString(cudaGetLastError()));
    if (init_comm(&world, &comm)) return 1;

    for (long step = 0; step < steps; ++step) {
        const ncclResult_t called =
            ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, stream);
        if (await_ready(comm, called) || await_stream(stream, comm)) return 1;
        if (step == 0) {
            printf("rank %d of %d: the first step is done\n", rank, world.world_size);
            fflush(stdout);
        }
        ddprun_report_progress((uint64_t)step + 1);
    }
    printf("rank %d of %d: %ld steps\n", rank, world.world_size, steps);
    if (await_ready(comm, ncclCommFinalize(comm))) return 1;
    return ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
}
