// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::agent {

/// Facts of the machine about the time in which a worker died. Nothing: not known here.
struct MachineFacts {
    /// Processes of the workers' memory cgroup that the kernel killed for lack of memory since the
    /// round's workers were started.
    std::optional<std::uint64_t> oom_kills;
    /// The tightest limit that holds for them.
    std::optional<std::uint64_t> memory_limit_bytes;
    /// The kernel's line about its killing this very process for lack of memory.
    std::string oom_line;
    /// The kernel's or a driver's line about its crash.
    std::string crash_line;
    struct SharedMemory {
        std::uint64_t size_bytes = 0;
        std::uint64_t free_bytes = 0;

        bool operator==(const SharedMemory&) const = default;
    };
    std::optional<SharedMemory> shared_memory;

    bool operator==(const MachineFacts&) const = default;
};

/// Why a worker ended as it did, as far as its end and the machine show it.
struct CauseInWords {
    /// For the headline, where the machine is sure: "out of memory". Else empty.
    std::string brief;
    /// A sentence, with what to do; empty when the end needs no explanation.
    std::string sentence;

    bool operator==(const CauseInWords&) const = default;
};

CauseInWords cause_in_words(const control::WorkerEnd& end, const MachineFacts& facts);

/// Which Python did not find a module, and why that Python was chosen, if `output` ends with that
/// error; else empty. Most often it is another Python than the user expects.
std::string missing_module(
    const std::string& output, const std::string& python, const std::string& python_origin);

/// For an error whose text ddprun has not seen because the worker wrote it to the terminal itself:
/// the module may be missing.
std::string run_by(const std::string& python, const std::string& python_origin);

/// The last exception of a Python program's main thread that its standard error shows.
struct ShownException {
    /// "ValueError: bad batch"; at most limits::max_exception_bytes.
    std::string line;
    /// It ended the program. Else other lines follow it: a message of several lines, or the program
    /// has caught it and went on.
    bool is_end = false;

    bool operator==(const ShownException&) const = default;
};

std::optional<ShownException> exception_in(const std::string& output);

/// "512 MiB", "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace ddprun::agent
