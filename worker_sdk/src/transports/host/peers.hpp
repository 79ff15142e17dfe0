// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/host/segment.hpp"

#include <functional>
#include <memory>
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

    /// True when the rank died or left the group. Its earlier writes are visible after this call.
    bool is_gone(int rank) const;

private:
    bool is_dead(std::size_t rank) const;

    const Segment& segment_;
    std::vector<int> pids_;
    std::vector<int> descriptors_;  // -1: the rank is checked by its pid
};

/// Returns a function for ranks of one host, in the order of their seats. It returns those whose
/// processes have ended, except `rank`.
std::function<std::vector<int>()> ended_processes_of(
    std::shared_ptr<Segment> segment, std::vector<int> ranks, int rank);

/// Whether all ranks can run at the same time.
bool has_processor_for_each(const Segment& segment);
/// Writes which processors this process may use.
void post_processors(Seat& seat);

}  // namespace ddprun::groups
