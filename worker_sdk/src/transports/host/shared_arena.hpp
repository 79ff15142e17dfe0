// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/transports/host/page_ranges.hpp"
#include "worker_sdk/src/transports/host/segment.hpp"

#include <memory>
#include <mutex>

namespace ddprun::groups {

/// This rank's part of the shared memory, in pieces.
class SharedArena : public Arena {
public:
    SharedArena(std::shared_ptr<Segment> segment, int rank);

    void* take(std::size_t bytes) override;
    void give_back(void* data, std::size_t bytes) override;

private:
    std::shared_ptr<Segment> segment_;
    std::byte* start_;
    std::mutex mutex_;
    PageRanges ranges_;
};

}  // namespace ddprun::groups
