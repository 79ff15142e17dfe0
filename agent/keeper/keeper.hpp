// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/process/inherited_state.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"

#include <sys/types.h>
#include <termios.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <span>
#include <variant>

/// The process that the user starts is the keeper. It forks the agent and outlives it by one kill:
/// when the agent is gone, past its fence, or silent, everything below it is killed, and only then
/// does the rest of the cluster see this node's connection end.
///
///   int main():
///     parse options (help and errors end here)
///     const auto start = InheritedState::capture();
///     auto fork = fork_agent(start);
///     if (auto* keeper = std::get_if<KeeperSide>(&fork.value())) return keep(*keeper);
///     ... threads, sockets, the agent: AgentSide and KeeperLink (keeper_link.hpp)
namespace ddprun::agent {

/// A longer one is not noted: a node that is killed then leaves its workers' error files.
inline constexpr std::size_t max_error_file_stem_bytes = 1024;

/// Shared by keeper and agent. The agent writes, the keeper reads.
struct KeeperPage {
    /// Nanoseconds on the boot clock; 0: no fence.
    std::atomic<std::int64_t> fence_ends_at;
    /// Sessions of the workers by local index, 0 for none: what the keeper kills where there is no
    /// /proc to look into.
    std::array<std::atomic<pid_t>, limits::max_workers_per_node> sessions;
    /// Error files that are to be removed with the workers: STEM0.json, STEM1.json and so on. The
    /// stem is not touched while there is a count.
    std::atomic<int> error_file_count;
    std::array<char, max_error_file_stem_bytes> error_file_stem;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<pid_t>::is_always_lock_free);

/// What the agent gets of the fork. The socket is its own until a KeeperLink takes it.
struct AgentSide {
    int socket = -1;
    KeeperPage* page = nullptr;
    pid_t keeper = 0;
};

/// Children that the process had before the fork (a shell that exec'd us left its background jobs)
/// are never killed.
inline constexpr int max_preexisting_children = 256;

/// What the keeper gets of it.
struct KeeperSide {
    int socket = -1;
    const KeeperPage* page = nullptr;
    pid_t agent = 0;
    int signals = -1;
    std::array<pid_t, max_preexisting_children> preexisting{};
    int preexisting_count = 0;
    /// The terminal whose modes are given back, -1 for none.
    int terminal = -1;
    termios terminal_modes{};
    /// A worker reads the terminal: this process runs in the terminal's foreground only.
    bool is_read = false;
    /// The connection of the `ddprun --hosts` that started this node, -1 for none: each byte is a
    /// signal for this node, and its end is SIGTERM. To be set by the caller.
    int commands = -1;
};

/// The signals that the keeper hands to the agent unless others are asked for.
inline constexpr std::array stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/// Makes this process a subreaper and forks. Returns in both: the keeper with its signals blocked
/// (they are read from a descriptor), the agent in a session of its own, itself a subreaper. All of
/// `handed_on` and the stop signals stay pending in the agent: one that it got as well was sent to
/// every process. It ignores TSTP. SIGUSR1 and SIGUSR2 are ignored by both unless they are handed
/// on.
/// `is_terminal_read`: a worker is to read the terminal. Like any program that does, this process
/// then stops (SIGTTIN) while it is in the terminal's background, already here.
/// Requires: no thread was ever started.
Result<std::variant<AgentSide, KeeperSide>> fork_agent(
    const InheritedState& start,
    std::span<const int> handed_on = stop_signals,
    bool is_terminal_read = false);

/// Runs the keeper to its end. Returns what `main` returns: the agent's exit code, or 1 after a
/// line on stderr when the agent did not end by itself. By then nothing below this process is left,
/// except what a line on stderr names.
int keep(KeeperSide& side);

/// Removes what workers wrote as they ended and nothing has removed yet, as it is noted in the
/// page, and the folder that it was in.
void remove_error_files(const KeeperPage& page);

/// Kills everything below the agent, for an agent whose keeper is gone; at most
/// limits::kill_descendants_timeout. Names what is stuck on stderr, and removes the error files
/// that are noted. The caller then exits.
void kill_own_node(const KeeperPage& page);

/// The messages between keeper and agent: one per packet, no answer is waited for.
namespace keeper {

/// Keeper to agent: this signal was sent to `ddprun`. SIGTSTP: stop the workers, the keeper is
/// about to stop itself; SIGCONT: it goes on again.
struct SignalCame {
    std::int32_t signal;
    /// 0: none, or one outside this pid namespace.
    std::int32_t sender;
};

/// Agent to keeper.
struct FromAgent {
    enum class Kind : std::uint32_t {
        /// `signals_read` is news.
        signals_read,
        /// The fence was set, or moved to an earlier moment: look at the page.
        fence_moved,
        /// A descriptor comes with it: the control connection from now on.
        connection,
    };
    Kind kind;
    /// How many signals the agent has read by now.
    std::uint32_t signals_read;
};

}  // namespace keeper

}  // namespace ddprun::agent
