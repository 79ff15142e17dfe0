// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Tables of known Python code: the functions of PyTorch in which a rank waits for others,
/// debuggers, and which code is the user's. The tables are in the .cpp file.
namespace ddprun::agent::health {

enum class WaitsFor : std::uint8_t { peers, store };

/// Innermost first.
using Stack = std::vector<PythonFrame>;

/// A wait in which a thread is if it makes no progress.
struct KnownWait {
    WaitsFor what = WaitsFor::peers;
    /// The function also does work: only an idle process waits in it.
    bool only_if_idle = false;
    /// "all_reduce", "backward"
    std::string name;

    bool operator==(const KnownWait&) const = default;
};

/// Determined by the innermost frame. If the user's code calls a C++ object of PyTorch directly,
/// there is no frame for it: `store.get()` is recognized by its connection, and for `work.wait()`
/// see `may_wait_for_work`.
std::optional<KnownWait> known_wait(const Stack& stack);

/// The thread is in a function outside of the standard library that uses a `wait`, and in the
/// kernel it waits for another thread (futex): as `work.wait()` of an asynchronous collective does.
/// A function that uses both `wait` and a lock counts as waiting in either.
bool may_wait_for_work(const PythonThread& thread, const Sample& sample);

/// The thread waits for an input at the prompt of a debugger.
bool is_at_debugger(const Stack& stack);

/// The thread waits for another thread of its process to end.
bool waits_for_thread(const Stack& stack);

/// The innermost frame of the user's own code: outside of the standard library and installed
/// packages; if there is none, outside of the standard library and PyTorch. Null: there is none.
const PythonFrame* user_frame(const Stack& stack);

}  // namespace ddprun::agent::health
