// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What the files of /proc/PID say, as values. Pure; any text is accepted.
namespace ddprun::agent::health {

/// Of /proc/PID/stat.
struct ProcessStat {
    char state = '?';
    /// In clock ticks, of the process and of children that have ended and were waited for.
    std::uint64_t cpu_ticks = 0;
    /// In clock ticks since the machine was started; with the pid it names a process for ever.
    std::uint64_t started_at = 0;

    bool operator==(const ProcessStat&) const = default;
};

std::optional<ProcessStat> parse_stat(std::string_view stat);

/// The debugger that is attached, by /proc/PID/status; 0: none.
int tracer_in(std::string_view status);

/// What a process has read and written, by /proc/PID/io: through system calls, or from and to
/// disks where that is more (mapped files).
std::uint64_t io_bytes_in(std::string_view io);

/// How long a thread has run, by /proc/PID/task/TID/schedstat.
std::optional<Duration> run_time_in(std::string_view schedstat);

/// The only process that is a child of a thread, by /proc/PID/task/TID/children; nothing: there is
/// none, or more than one.
std::optional<int> only_child_in(std::string_view children);

/// Of /proc/PID/wchan; empty: in no place of the kernel, or it is not shown.
std::string wait_channel_in(std::string_view wchan);

/// The system call that a thread is in.
struct SystemCall {
    int number = 0;
    std::array<std::uint64_t, 6> arguments{};

    bool operator==(const SystemCall&) const = default;
};

/// Of /proc/PID/syscall; nothing when the thread is in none.
std::optional<SystemCall> parse_system_call(std::string_view syscall);

/// What a system call is about.
enum class SubjectKind : std::uint8_t {
    none,
    descriptor,   ///< the number of a descriptor
    descriptors,  ///< the address of a `pollfd`, of which the first is meant
    path,         ///< the address of a text
};

struct CallSubject {
    SubjectKind kind = SubjectKind::none;
    /// As the call got it.
    std::uint64_t value = 0;

    bool operator==(const CallSubject&) const = default;
};

/// "read(2)"; "system call 451" for one that is not known by name.
std::string name_of(const SystemCall& call);
CallSubject subject_of(const SystemCall& call);

/// The value of a variable in /proc/PID/environ, a list of texts with a zero behind each.
std::optional<std::string> variable_in(std::string_view environment, std::string_view name);

}  // namespace ddprun::agent::health
