// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

/// The processes below this one, whatever session, group or environment they gave themselves: the
/// caller is a child subreaper, so a process that loses its parent becomes the caller's child.
///
/// The keeper uses this while memory may be exhausted and after a fork: nothing here allocates,
/// locks or throws, except where stated. Needs /proc; without it see keeper.cpp.
namespace ddprun::agent {

/// A process as /proc shows it.
struct ProcessEntry {
    pid_t pid = 0;
    pid_t parent = 0;
    pid_t session = 0;
    /// R, S, D, T, Z ...
    char state = '?';
    std::array<char, 16> command{};

    /// "python3 (pid 412, state D)". Allocates.
    std::string describe() const;
};

/// What could not be killed in time; the first few by name.
struct Stuck {
    static constexpr std::size_t capacity = 16;
    std::array<ProcessEntry, capacity> processes{};
    std::size_t count = 0;

    bool empty() const { return count == 0; }
    std::span<const ProcessEntry> named() const {
        return {processes.data(), count < capacity ? count : capacity};
    }
};

using Pids = std::span<const pid_t>;

/// From now on orphans below this process become its children.
void become_subreaper();

/// Any child at all, dead or alive, also without /proc.
bool has_any_child();

/// Fills `pids` with the direct children of this process, zombies included; returns how many there
/// are, which may be more than fit. -1 when /proc does not show them.
int list_children(std::span<pid_t> pids);

/// Where in the kernel the first thread of a process is: "do_wait", "poll_schedule_timeout". Empty
/// when that is not shown.
using KernelPlace = std::array<char, 48>;
KernelPlace kernel_place_of(pid_t pid);
/// R, S, D, T, Z ...; '?' when that is not shown.
char state_of(pid_t pid);

/// Every descendant, zombies included. Allocates.
std::vector<ProcessEntry> list_descendants();

/// Sends `signal` to every descendant but `excluded` and what is below those. Returns how many
/// living ones it reached.
int signal_descendants(int signal, Pids excluded = {});

/// SIGSTOPs every descendant, and returns when all have stopped, at most `timeout` later: until then
/// they may still read a terminal. Blocks.
void stop_descendants(Duration timeout);

/// Sends `signal` to every living descendant whose session is `session`; returns how many.
int signal_session_of(pid_t session, int signal);

/// SIGKILLs every descendant but `excluded` (and what is below those), reaps them by pid, again and
/// again until there is none, at most `timeout` long. Returns what is left. Blocks. Requires:
/// nothing else waits for these children afterwards (their exits are lost).
Stuck kill_descendants(Duration timeout, Pids excluded = {});

/// Reaps, by pid, the children of this process that have ended and are not among `watched`.
/// Returns how many.
int reap_orphans(Pids watched);

}  // namespace ddprun::agent
