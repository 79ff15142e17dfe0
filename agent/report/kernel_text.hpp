// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What the kernel writes about a process's end, read as values: cgroup files and its log.
namespace ddprun::agent {

/// Where the memory of this process is accounted.
struct MemoryCgroup {
    int version = 2;
    /// Its folder, and the topmost one that can be seen from here.
    std::string folder;
    std::string top;

    bool operator==(const MemoryCgroup&) const = default;
};

/// From the texts of /proc/self/cgroup and /proc/self/mountinfo. A container may have its cgroup
/// mounted as the root, under the path it has outside, or not at all.
std::optional<MemoryCgroup> find_memory_cgroup(
    std::string_view proc_cgroup, std::string_view mountinfo);

/// From `memory.events` (version 2) or `memory.oom_control` (version 1): how many processes the
/// kernel has killed here for lack of memory.
std::optional<std::uint64_t> oom_kill_count(std::string_view text);

/// From `memory.max` or `memory.limit_in_bytes`; nothing: no limit.
std::optional<std::uint64_t> memory_limit(std::string_view text);

/// The text of one record of /dev/kmsg ("6,1234,56789,-;text\n KEY=value").
std::string_view kernel_message(std::string_view record);

/// "Out of memory: Killed process 4242 (python3) ...", as the kernel numbers processes.
bool is_oom_kill_of(std::string_view message, int pid);

/// The kernel's or a driver's line about that process: a segmentation fault with the library it
/// was in, or an error of the GPU ("NVRM: Xid").
bool is_about_crash(std::string_view message, int pid);

}  // namespace ddprun::agent
