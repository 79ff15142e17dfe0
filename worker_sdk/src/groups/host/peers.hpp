// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/host/segment.hpp"

#include <vector>

namespace ddprun::groups {

/// The processes behind the seats of a segment: which of them are gone.
class Peers {
public:
    /// Requires: every seat has its pid.
    Peers(const Segment& segment, int rank);
    Peers(const Peers&) = delete;
    Peers& operator=(const Peers&) = delete;
    ~Peers();

    /// It died, or left the group. What it did before can be read by whoever asks after this.
    bool is_gone(int rank) const;

private:
    bool is_dead(std::size_t rank) const;

    const Segment& segment_;
    std::vector<int> pids_;
    std::vector<int> descriptors_;  // -1: asked by pid
};

/// Enough processors for all ranks to run at the same time?
bool has_processor_for_each(const Segment& segment);
/// Writes which ones this process may use.
void post_processors(Seat& seat);

}  // namespace ddprun::groups
