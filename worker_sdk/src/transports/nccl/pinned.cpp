// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/pinned.hpp"

#include <string.h>

namespace ddprun::nccl {

namespace {

constexpr unsigned pinned_for_all_contexts_and_mapped = 1 | 2;  // CU_MEMHOSTALLOC_...

}  // namespace

Pinned::Pinned(const Device& device, std::size_t bytes) : device_(device) {
    const auto& driver = device_.driver();
    status_ = driver.host_allocate(&data_, bytes, pinned_for_all_contexts_and_mapped);
    if (status_ == 0) status_ = driver.host_device_pointer(&on_device_, data_, 0);
    if (status_ == 0) ::memset(data_, 0, bytes);
}

Pinned::~Pinned() {
    const OnDevice here(device_);
    if (data_) device_.driver().host_free(data_);
}

}  // namespace ddprun::nccl
