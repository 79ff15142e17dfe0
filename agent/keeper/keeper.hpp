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

/// The process that the user starts is the keeper. It forks the agent and outlives it: when the
/// agent has ended, is past its fence, or is silent, the keeper kills everything below it. Only
/// after that can the rest of the cluster see this node's connection end.
///
///   int main():
///     parse options (help and errors end here)
///     const auto start = InheritedState::capture();
///     auto fork = fork_agent(start);
///     if (auto* keeper = std::get_if<KeeperSide>(&fork.value())) return keep(*keeper);
///     ... threads, sockets, the agent: AgentSide and KeeperLink (keeper_link.hpp)
namespace ddprun::agent {

/// A longer stem is not noted. Then the error files of the workers stay if the node is killed.
inline constexpr std::size_t max_error_file_stem_bytes = 1024;

/// Shared by keeper and agent. The agent writes, the keeper reads.
struct KeeperPage {
    /// Nanoseconds on the boot clock; 0: no fence.
    std::atomic<std::int64_t> fence_ends_at;
    /// The workers' sessions by local index, 0 for none. The keeper kills them when there is no
    /// /proc.
    std::array<std::atomic<pid_t>, limits::max_workers_per_node> sessions;
    /// Error files to remove with the workers: STEM0.json, STEM1.json and so on. The stem does not
    /// change while the count is above 0.
    std::atomic<int> error_file_count;
    std::array<char, max_error_file_stem_bytes> error_file_stem;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<pid_t>::is_always_lock_free);

/// The agent's side of the fork. It owns the socket until a KeeperLink takes it.
struct AgentSide {
    int socket = -1;
    KeeperPage* page = nullptr;
    pid_t keeper = 0;
};

/// Children that existed before the fork (background jobs of a shell that then executed this
/// program) are never killed.
inline constexpr int max_preexisting_children = 256;

/// The keeper's side of the fork.
struct KeeperSide {
    int socket = -1;
    const KeeperPage* page = nullptr;
    pid_t agent = 0;
    int signals = -1;
    std::array<pid_t, max_preexisting_children> preexisting{};
    int preexisting_count = 0;
    /// The terminal whose modes are restored, -1 for none.
    int terminal = -1;
    termios terminal_modes{};
    /// A worker reads the terminal, so this process may run in the terminal's foreground only.
    bool is_read = false;
    /// The connection of the `ddprun --hosts` that started this node, -1 for none: each byte is a
    /// signal for this node, and its end counts as SIGTERM. The caller sets it.
    int commands = -1;
};

/// The signals that the keeper forwards to the agent by default.
inline constexpr std::array stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/// Makes this process a subreaper and forks. Returns in both: the keeper with its signals blocked
/// (they are read from a descriptor), the agent in a session of its own, itself a subreaper.
/// `handed_on` and the stop signals stay pending in the agent: a signal that is also pending there
/// was sent to every process. The agent ignores TSTP. Both ignore SIGUSR1 and SIGUSR2 unless these
/// are in `handed_on`. `is_terminal_read`: a worker is to read the terminal. Then this process
/// stops here (SIGTTIN) while it is in the terminal's background, like any program that reads the
/// terminal. Requires: no thread was ever started.
Result<std::variant<AgentSide, KeeperSide>> fork_agent(
    const InheritedState& start,
    std::span<const int> handed_on = stop_signals,
    bool is_terminal_read = false);

/// Runs the keeper to its end. Returns the exit code for `main`: that of the agent, or 1 if the
/// agent did not end by itself, which a line on stderr reports. All processes below this one have
/// ended then, except those that a line on stderr names.
int keep(KeeperSide& side);

/// Removes the workers' error files that the page still lists, and the folder of these files.
void remove_error_files(const KeeperPage& page);

/// Kills everything below the agent when its keeper is gone; takes at most
/// limits::kill_descendants_timeout. Names processes that could not be killed on stderr, and
/// removes the noted error files. The caller then exits.
void kill_own_node(const KeeperPage& page);

/// The messages between keeper and agent: one per packet, without replies.
namespace keeper {

/// Keeper to agent: this signal was sent to `ddprun`. SIGTSTP: the agent must stop the workers, and
/// the keeper then stops itself; SIGCONT: the keeper continues.
struct SignalCame {
    std::int32_t signal;
    /// 0: no sender, or one outside this pid namespace.
    std::int32_t sender;
};

/// A message from the agent to the keeper.
struct FromAgent {
    enum class Kind : std::uint32_t {
        /// `signals_read` has changed.
        signals_read,
        /// The fence was set or moved to an earlier time: the keeper must read the page.
        fence_moved,
        /// A descriptor is attached: the control connection from now on.
        connection,
    };
    Kind kind;
    /// How many signals the agent has read by now.
    std::uint32_t signals_read;
};

}  // namespace keeper

}  // namespace ddprun::agent
