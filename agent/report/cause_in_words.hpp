// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::agent {

/// Facts about the machine around the time when a worker died. None: not known.
struct MachineFacts {
    /// Processes of the workers' memory cgroup that the kernel killed for lack of memory since the
    /// round's workers were started.
    std::optional<std::uint64_t> oom_kills;
    /// The tightest memory limit that applies to them.
    std::optional<std::uint64_t> memory_limit_bytes;
    /// The kernel's log line about killing this very process for lack of memory.
    std::string oom_line;
    /// The kernel's or a driver's log line about its crash.
    std::string crash_line;
    struct SharedMemory {
        std::uint64_t size_bytes = 0;
        std::uint64_t free_bytes = 0;

        bool operator==(const SharedMemory&) const = default;
    };
    std::optional<SharedMemory> shared_memory;

    bool operator==(const MachineFacts&) const = default;
};

/// Why a worker ended, as far as its exit status and the machine's facts show it.
struct CauseInWords {
    /// The cause for the headline if the facts are conclusive: "out of memory". Otherwise empty.
    std::string brief;
    /// A sentence, with advice; empty when the end needs no explanation.
    std::string sentence;

    bool operator==(const CauseInWords&) const = default;
};

CauseInWords cause_in_words(const control::WorkerEnd& end, const MachineFacts& facts);

/// If `output` ends with the error of a missing module: which Python did not find it, and why that
/// Python was chosen; else empty. Usually the user expected another Python.
std::string missing_module(
    const std::string& output, const std::string& python, const std::string& python_origin);

/// For an error whose text ddprun has not read because the worker wrote it to the terminal
/// directly: a module may be missing.
std::string run_by(const std::string& python, const std::string& python_origin);

/// The last exception of a Python program's main thread in its standard error.
struct ShownException {
    /// "ValueError: bad batch"; at most limits::max_exception_bytes.
    std::string line;
    /// The exception ended the program. If false, other lines follow it: the exception has a
    /// message of several lines, or the program caught it and continued.
    bool is_end = false;

    bool operator==(const ShownException&) const = default;
};

std::optional<ShownException> exception_in(const std::string& output);

/// "512 MiB", "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace ddprun::agent
