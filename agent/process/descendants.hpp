// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

/// All descendants of this process, whatever session, group or environment they have: the caller is
/// a child subreaper, so a process that loses its parent becomes the caller's child.
///
/// The keeper uses this while memory may be exhausted and after a fork: unless stated otherwise,
/// nothing here allocates, locks or throws. Needs /proc; keeper.cpp handles machines without it.
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

/// Processes that could not be killed in time; the first few by name.
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

/// From now on orphaned descendants become children of this process.
void become_subreaper();

/// Whether there is any child, dead or alive. Works without /proc.
bool has_any_child();

/// Fills `pids` with the direct children of this process, zombies included. Returns their number,
/// which may exceed the room; -1 when /proc does not show them.
int list_children(std::span<pid_t> pids);

/// The place in the kernel of a process's first thread: "do_wait", "poll_schedule_timeout". Empty
/// when it is not shown.
using KernelPlace = std::array<char, 48>;
KernelPlace kernel_place_of(pid_t pid);
/// The state: R, S, D, T, Z ...; '?' when it is not shown.
char state_of(pid_t pid);

/// Every descendant, zombies included. Allocates.
std::vector<ProcessEntry> list_descendants();

/// Sends `signal` to every descendant except `excluded` and their descendants. Returns how many
/// living processes it reached.
int signal_descendants(int signal, Pids excluded = {});

/// Sends SIGSTOP to every descendant and returns when all have stopped, at most `timeout` later:
/// until they have stopped they may read a terminal. Blocks.
void stop_descendants(Duration timeout);

/// Sends `signal` to every living descendant whose session is `session`; returns how many.
int signal_session_of(pid_t session, int signal);

/// Sends SIGKILL to every descendant except `excluded` (and their descendants) and reaps them by
/// pid, repeatedly until there is none, for at most `timeout`. Returns what is left. Blocks.
/// Requires: no other code waits for these children afterwards, since their exit statuses are lost.
Stuck kill_descendants(Duration timeout, Pids excluded = {});

/// Reaps, by pid, the children of this process that have ended and are not among `watched`.
/// Returns how many.
int reap_orphans(Pids watched);

}  // namespace ddprun::agent
