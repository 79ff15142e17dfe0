// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::groups {
class Group;
}

namespace ddprun {

/// This process can go on in the next round: a connection to the agent, and the thread that reads
/// it (agent/channel/FORMAT.md). Behind ddprun/recovery.hpp. Any thread; `next_round` one at a
/// time.
class RecoveryChannel {
public:
    /// `way`: the value of DDPRUN_CHANNEL, or null. Without an agent nothing is possible.
    explicit RecoveryChannel(const char* way);
    RecoveryChannel(const RecoveryChannel&) = delete;
    RecoveryChannel& operator=(const RecoveryChannel&) = delete;
    ~RecoveryChannel();

    bool is_possible() const;
    /// This process has been in an earlier round.
    static bool has_gone_on();
    /// Aborts the group when the round is over, so that calls in progress fail.
    void end_with_round(std::weak_ptr<groups::Group> group);
    /// Waits until the agent has announced the end of the round, reports the state, and waits for
    /// the next round. Then the environment of this process is that round's. Throws Error when the
    /// round is not announced to be over within `time`, when a stop is announced, or when the agent
    /// is gone.
    void next_round(
        std::optional<std::uint64_t> committed, bool is_clean, std::chrono::milliseconds time);

private:
    using Lock = std::unique_lock<std::mutex>;

    void read_lines();
    void take(std::string_view line);
    void abort_groups();
    void wait(Lock& lock, const std::function<bool()>& is_done, std::chrono::milliseconds time);

    int connection_ = -1;
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    bool is_closed_ = false;
    /// The round that is over, once the agent has said so.
    std::optional<int> ended_;
    /// The environment of the next round, as on the wire.
    std::optional<std::string> next_;
    std::vector<std::weak_ptr<groups::Group>> groups_;
    std::thread reader_;
};

/// "NAME=VALUE NAME=VALUE" with escaped values, as in a `go` line. None: it is malformed.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_variables(
    std::string_view text);

}  // namespace ddprun
