// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/sdk/store_thread.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddprun::tests {

/// Exit codes of sdk_worker: which exception ended it.
inline constexpr int peer_lost = 10;
inline constexpr int timed_out = 11;
inline constexpr int mismatched = 12;
inline constexpr int misused = 13;

/// The ranks of one world as processes: each is sdk_worker with a scenario, started with the
/// variables a launcher would set, its output in a pipe. Kills what is left when it ends.
class Workers {
public:
    using Variables = std::map<std::string, std::string>;

    /// `variables` are added to each rank's; one set to nothing is taken away.
    Workers(int count, std::vector<std::string> scenario, const Variables& variables = {});
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    ~Workers();

    std::uint16_t store_port() const { return store_.port(); }
    /// Reads until each rank has written this line.
    void await_line(const std::string& line);
    void kill(int rank, int signal);
    /// Waits for the end of a rank: its exit code, or 128 + signal.
    int exit_code(int rank);
    /// Of all ranks, in order: "0 0 137".
    std::string exit_codes();
    /// Everything the rank has written to both outputs. Requires: `exit_code(rank)` was asked.
    const std::string& output(int rank) const { return ranks_[index(rank)].output; }

private:
    struct Rank {
        pid_t pid = -1;
        int pipe = -1;
        std::string output;
        int code = -1;
    };
    static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
    void start(
        int rank, int count, const std::vector<std::string>& scenario, const Variables& variables);
    /// False at the end of its output.
    bool read_some(Rank& rank);

    StoreThread store_;
    std::vector<Rank> ranks_;
};

/// Of the clock by which ranks print when they noticed a loss.
long long monotonic_ms();
/// That moment, in the output of a rank; 0 without one.
long long moment_in(const std::string& output);

}  // namespace ddprun::tests
