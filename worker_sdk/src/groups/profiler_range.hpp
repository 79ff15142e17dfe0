// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace ddprun::groups {

/// A call on a profiler's timeline, from its launch to its end: an NVTX range in the domain
/// "ddprun". Where no profiler is attached, or the build had no NVTX, it costs a comparison.
///
/// Source: NVTX 3, nvtx3/nvToolsExt.h of the CUDA Toolkit. Nothing is linked: a profiler names its
/// library in NVTX_INJECTION64_PATH.
class ProfilerRange {
public:
    /// Opens the profiler's library, if there is one: that may take a while.
    static void prepare();

    /// No range.
    ProfilerRange() = default;
    /// Without memory for its name there is no range.
    explicit ProfilerRange(const Collective& collective) noexcept;
    ProfilerRange(ProfilerRange&& other) noexcept : id_(std::exchange(other.id_, std::nullopt)) {}
    ProfilerRange& operator=(ProfilerRange&& other) noexcept {
        end();
        id_ = std::exchange(other.id_, std::nullopt);
        return *this;
    }
    ~ProfilerRange() { end(); }

    /// A second call does nothing. Any thread.
    void end() noexcept;

private:
    std::optional<std::uint64_t> id_;
};

}  // namespace ddprun::groups
