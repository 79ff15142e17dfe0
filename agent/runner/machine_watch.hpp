// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/cause_in_words.hpp"
#include "agent/report/kernel_text.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace ddprun::agent {

/// Looks at the machine before and after a worker's death: the memory cgroup's counters, the
/// kernel's log where it may be read, /dev/shm. Every call may block. From any thread.
class MachineWatch {
public:
    MachineWatch() = default;
    ~MachineWatch();
    MachineWatch(const MachineWatch&) = delete;
    MachineWatch& operator=(const MachineWatch&) = delete;

    /// A round's workers are about to start: from here on is counted.
    void begin();
    /// After the death of the worker `pid`.
    MachineFacts look(int pid);

private:
    struct Before {
        std::optional<MemoryCgroup> cgroup;
        std::optional<std::uint64_t> oom_kills;
        int kernel_log = -1;
    };

    std::mutex mutex_;
    Before before_;
};

/// A small file of the kernel, or one that a worker wrote: the first `most_bytes` of it. Nothing
/// when it cannot be opened; empty for what is no regular file, so that a pipe of that name is not
/// waited for.
std::optional<std::string> read_file(const std::string& path, std::size_t most_bytes);

}  // namespace ddprun::agent
