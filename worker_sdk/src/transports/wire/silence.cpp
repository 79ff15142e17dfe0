// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/silence.hpp"

#include "worker_sdk/src/waiting_times.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

namespace ddprun::groups {

namespace {

/// One question may be unanswered only because its answer is still in flight.
constexpr int fewest_open_questions = 3;

void set(int socket, int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

void ask_when_idle(int socket) {
    using std::chrono::seconds;
    const auto interval =
        std::chrono::duration_cast<seconds>(waiting_times::silent_machine_interval).count();
    const auto timeout =
        std::chrono::duration_cast<seconds>(waiting_times::silent_machine_timeout).count();
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(interval));
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(interval));
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(timeout / interval));
}

bool is_silent(const tcp_info& facts) {
    const auto heard_ms = std::min(facts.tcpi_last_data_recv, facts.tcpi_last_ack_recv);
    // Questions to the peer are probes, of an idle connection or a closed window, and repetitions
    // of data.
    const int open_questions = std::max(facts.tcpi_probes, facts.tcpi_retransmits);
    return heard_ms >= waiting_times::silent_machine_timeout.count() &&
           open_questions >= fewest_open_questions;
}

bool is_silent(int socket) {
    tcp_info facts{};
    socklen_t size = sizeof facts;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &facts, &size) == 0 && is_silent(facts);
}

}  // namespace ddprun::groups
