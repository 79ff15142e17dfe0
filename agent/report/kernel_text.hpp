// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Parses the kernel's texts about a process's end: cgroup files and its log.
namespace ddprun::agent {

/// Where the memory of this process is accounted.
struct MemoryCgroup {
    int version = 2;
    /// The folder of this process's cgroup, and the topmost visible one.
    std::string folder;
    std::string top;

    bool operator==(const MemoryCgroup&) const = default;
};

/// Parses the texts of /proc/self/cgroup and /proc/self/mountinfo. A container may have its cgroup
/// mounted as the root, under its outer path, or not at all.
std::optional<MemoryCgroup> find_memory_cgroup(
    std::string_view proc_cgroup, std::string_view mountinfo);

/// The number of processes that the kernel has killed here for lack of memory, from `memory.events`
/// (version 2) or `memory.oom_control` (version 1).
std::optional<std::uint64_t> oom_kill_count(std::string_view text);

/// The limit in `memory.max` or `memory.limit_in_bytes`; none: no limit.
std::optional<std::uint64_t> memory_limit(std::string_view text);

/// The text of one record of /dev/kmsg ("6,1234,56789,-;text\n KEY=value").
std::string_view kernel_message(std::string_view record);

/// Whether this is "Out of memory: Killed process 4242 (python3) ..." for this process, by the
/// kernel's numbering.
bool is_oom_kill_of(std::string_view message, int pid);

/// Whether this is the kernel's or a driver's line about this process's crash: a segmentation fault
/// with its library, or any GPU's error ("NVRM: Xid"), which need not name a process.
bool is_about_crash(std::string_view message, int pid);

}  // namespace ddprun::agent
