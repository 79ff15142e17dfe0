// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/peers.hpp"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <utility>

namespace ddprun::groups {

Peers::Peers(const Segment& segment, int rank) : segment_(segment) {
    for (int other = 0; other < segment.ranks(); ++other) {
        const auto pid = segment.seat(other).pid.load();
        pids_.push_back(pid);
        // Pidfds are closed on exec by default. Where they are forbidden, the pid is used.
        const bool is_needed = other != rank && pid != ::getpid();
        const auto opened = is_needed ? ::syscall(SYS_pidfd_open, pid, 0) : -1;
        descriptors_.push_back(static_cast<int>(opened));
    }
}

Peers::~Peers() {
    for (const int descriptor : descriptors_)
        if (descriptor >= 0) ::close(descriptor);
}

bool Peers::is_gone(int rank) const {
    return segment_.seat(rank).has_left.load() != 0 || is_dead(static_cast<std::size_t>(rank));
}

bool Peers::is_dead(std::size_t rank) const {
    if (descriptors_[rank] < 0) return ::kill(pids_[rank], 0) != 0 && errno == ESRCH;
    pollfd ended{descriptors_[rank], POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
}

std::function<std::vector<int>()> ended_processes_of(
    std::shared_ptr<Segment> segment, std::vector<int> ranks, int rank) {
    const auto own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    const auto peers = std::make_shared<Peers>(*segment, own);
    return [segment = std::move(segment), peers, ranks = std::move(ranks), own] {
        std::vector<int> ended;
        for (int seat = 0; seat < static_cast<int>(ranks.size()); ++seat)
            if (seat != own && peers->is_gone(seat))
                ended.push_back(ranks[static_cast<std::size_t>(seat)]);
        return ended;
    };
}

void post_processors(Seat& seat) {
    static_assert(sizeof seat.processors == sizeof(cpu_set_t), "the same bits");
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
    ::memcpy(seat.processors.data(), &set, sizeof set);
}

bool has_processor_for_each(const Segment& segment) {
    std::size_t count = 0;
    for (std::size_t word = 0; word < segment.seat(0).processors.size(); ++word) {
        std::uint64_t any = 0;
        for (int rank = 0; rank < segment.ranks(); ++rank)
            any |= segment.seat(rank).processors[word];
        count += std::bitset<64>(any).count();
    }
    return count >= static_cast<std::size_t>(segment.ranks());
}

}  // namespace ddprun::groups
