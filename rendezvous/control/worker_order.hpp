// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/terms.hpp"

#include <cstdint>
#include <optional>
#include <string>

/// The part of a command of another machine that agents perform: signals to workers, and looks at
/// what they do. Parts of message.hpp; the meaning of each field is in FORMAT.md.
namespace ddprun::control {

/// What a worker does. All text is printable; unknown values are empty.
struct RankStack {
    int rank = 0;
    int pid = 0;
    /// "blocked", "waits for other ranks"
    std::string activity = {};
    /// "read_batch (loader.py:112)"
    std::string site = {};
    /// What the kernel reports about the main thread.
    std::string detail = {};
    /// All Python threads, with a line for each frame; or the reason why they could not be read.
    std::string stacks = {};

    bool operator==(const RankStack&) const = default;
};

/// From the server to an agent: one signal to its workers, or a look at one of them.
struct WorkerOrder {
    enum class What : std::uint8_t { signal, stack };
    /// The answer repeats it.
    std::uint64_t id = 0;
    /// The order is only for the workers of this round.
    int round = 0;
    What what = What::signal;
    /// With `signal`.
    int signal = 0;
    /// Ranks of the receiver; with `stack` a single one.
    RankRange ranks = {};
    /// "ddprunctl at 10.0.0.5 (stated: alice@login1)"
    std::string by = {};

    bool operator==(const WorkerOrder&) const = default;
};

/// The only answer to a `WorkerOrder`.
struct WorkerAnswer {
    /// As in the order.
    std::uint64_t id = 0;
    WorkerOrder::What what = WorkerOrder::What::signal;
    RankRange ranks = {};
    bool is_done = false;
    /// What was done, or why not.
    std::string text = {};
    /// With `stack`.
    std::optional<RankStack> stack = std::nullopt;

    bool operator==(const WorkerAnswer&) const = default;
};

/// From the server to `ddprunctl`, before the answer to its command: what one worker does.
struct RankReport {
    int rank = 0;
    /// None: it could not be seen.
    std::optional<RankStack> stack = std::nullopt;
    /// Why it could not be seen.
    std::string problem = {};

    bool operator==(const RankReport&) const = default;
};

}  // namespace ddprun::control
