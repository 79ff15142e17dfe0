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

/// The ranks of one world as processes: each is sdk_worker with a scenario, started with a
/// launcher's variables, with its output in a pipe. The destructor kills processes that still run.
class Workers {
public:
    using Variables = std::map<std::string, std::string>;

    /// `variables` are added to each rank's; an empty value removes a variable.
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
    /// The exit codes of all ranks, in order: "0 0 137".
    std::string exit_codes();
    /// Everything the rank has written to both outputs. Requires: `exit_code(rank)` was called.
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

/// The clock of the ranks' output about the time when they noticed a loss.
long long monotonic_ms();
/// That time, from the output of a rank; 0 if it printed none.
long long moment_in(const std::string& output);

}  // namespace ddprun::tests
