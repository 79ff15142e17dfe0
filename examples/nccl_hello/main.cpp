// SPDX-License-Identifier: Apache-2.0
// NCCL without MPI: the launcher gives each process its rank, and its store distributes NCCL's id.
// Run it with
//   ddprun --standalone --nproc-per-node=gpu nccl_hello
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <string>

void check(ncclResult_t result) {
    if (result != ncclSuccess) throw ddprun::Error(ncclGetErrorString(result));
}
void check(cudaError_t result) {
    if (result != cudaSuccess) throw ddprun::Error(cudaGetErrorString(result));
}

int main() try {
    const auto world = ddprun::World::from_environment();
    auto store = ddprun::Store::connect(world);
    int devices = 0;
    const auto counted = cudaGetDeviceCount(&devices);
    if (counted != cudaSuccess)
        throw ddprun::Error(
            std::string("no GPU, or no driver for it: ") + cudaGetErrorString(counted));
    check(cudaSetDevice(world.local_rank % devices));

    ncclUniqueId id;
    if (world.rank == 0) {
        check(ncclGetUniqueId(&id));
        store.set("nccl_id", {id.internal, sizeof id.internal});
    }
    store.get("nccl_id").copy(id.internal, sizeof id.internal);
    ncclComm_t comm;
    check(ncclCommInitRank(&comm, world.world_size, id, world.rank));

    float number = static_cast<float>(world.rank + 1);
    float* sum;
    check(cudaMalloc(&sum, sizeof number));
    check(cudaMemcpy(sum, &number, sizeof number, cudaMemcpyDefault));
    check(ncclAllReduce(sum, sum, 1, ncclFloat, ncclSum, comm, nullptr));
    check(cudaMemcpy(&number, sum, sizeof number, cudaMemcpyDefault));
    std::printf("rank %d of %d: the sum is %g\n", world.rank, world.world_size, number);
    check(ncclCommDestroy(comm));
} catch (const ddprun::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
