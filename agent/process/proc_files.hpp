// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

/// What /proc shows of the processes of workers. May block on a process that calls exec. From any
/// thread.
namespace ddprun::agent {

/// "/proc/411"
std::string proc_folder(int pid);

/// Whether the kernel's log numbers processes as /proc does: in a container it has other numbers.
bool has_machine_pids();

/// The names in a folder of /proc that are numbers; none when it cannot be read.
std::optional<std::vector<std::string>> numbers_in(const std::string& path);

/// Where a symbolic link points to; empty, with errno: it cannot be read.
std::string link_of(const std::string& path);

/// Appends the children of `pid`. Returns false when the kernel does not show them.
bool add_children(int pid, std::vector<int>& pids);

/// Adds orphans to the processes to begin with, by worker. An orphan is a child of this process and
/// belongs to the worker whose session it has. Returns false when one belongs to no worker.
bool add_orphans(const std::vector<int>& leaders, std::vector<std::vector<int>>& roots);

}  // namespace ddprun::agent
