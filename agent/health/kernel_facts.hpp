// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The contents of files in /proc/PID as values. Pure; accepts any text.
namespace ddprun::agent::health {

/// The facts in /proc/PID/stat.
struct ProcessStat {
    char state = '?';
    /// In clock ticks: the process, and children that have ended and were reaped.
    std::uint64_t cpu_ticks = 0;
    /// In clock ticks since the machine was started. Together with the pid it identifies a process
    /// uniquely.
    std::uint64_t started_at = 0;

    bool operator==(const ProcessStat&) const = default;
};

std::optional<ProcessStat> parse_stat(std::string_view stat);

/// The pid of the attached debugger, from /proc/PID/status; 0: none.
int tracer_in(std::string_view status);

/// The bytes that a process has read and written, from /proc/PID/io: through system calls, or to
/// and from disks if that is more (mapped files).
std::uint64_t io_bytes_in(std::string_view io);

/// How long a thread has run, from /proc/PID/task/TID/schedstat.
std::optional<Duration> run_time_in(std::string_view schedstat);

/// The only child process of a thread, from /proc/PID/task/TID/children; none: it has no child, or
/// several.
std::optional<int> only_child_in(std::string_view children);

/// The content of /proc/PID/wchan; empty: the thread waits nowhere in the kernel, or the place is
/// not shown.
std::string wait_channel_in(std::string_view wchan);

/// The system call that a thread is in.
struct SystemCall {
    int number = 0;
    std::array<std::uint64_t, 6> arguments{};

    bool operator==(const SystemCall&) const = default;
};

/// The system call in /proc/PID/syscall; none when the thread is in no call.
std::optional<SystemCall> parse_system_call(std::string_view syscall);

/// The kind of a system call's object.
enum class SubjectKind : std::uint8_t {
    none,
    descriptor,   ///< the number of a descriptor
    descriptors,  ///< the address of an array of `pollfd`; its first element counts
    path,         ///< the address of a text
};

struct CallSubject {
    SubjectKind kind = SubjectKind::none;
    /// The argument that was passed to the call.
    std::uint64_t value = 0;

    bool operator==(const CallSubject&) const = default;
};

/// "read(2)"; "system call 451" if its name is not known.
std::string name_of(const SystemCall& call);
CallSubject subject_of(const SystemCall& call);

/// The value of a variable in /proc/PID/environ, a list of texts that each end with a null byte.
std::optional<std::string> variable_in(std::string_view environment, std::string_view name);

}  // namespace ddprun::agent::health
