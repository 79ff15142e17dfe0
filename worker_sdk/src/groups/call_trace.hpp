// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The latest calls of one group, for use after a failure: a ring of fixed size. Recording a call
/// allocates nothing. A value; guarded by its group's mutex.
class CallTrace {
public:
    static constexpr std::size_t room = 1024;

    enum class State : std::uint8_t { launched, running, done, failed };

    struct Entry {
        Collective::Kind kind;
        ElementType type;
        Op op;
        State state;
        std::int32_t root;
        std::int32_t receiver;
        std::uint64_t count;
        std::uint64_t sequence;
        /// Milliseconds since 1970; `ended` is 0 until the call ends.
        std::int64_t launched_ms;
        std::int64_t ended_ms;
    };

    CallTrace();

    /// Returns the number of the entry, from 1 on. The other functions ignore 0 and the number of
    /// an entry that has been overwritten.
    std::uint64_t launched(const Collective& collective);
    void running(std::uint64_t number);
    void ended(std::uint64_t number, bool is_success);

    /// Oldest first.
    std::vector<Entry> latest() const;

private:
    Entry* find(std::uint64_t number);

    /// Not initialized, so that unused entries cost no memory.
    std::unique_ptr<Entry[]> entries_;
    std::uint64_t count_ = 0;
};

/// The group and rank that a trace belongs to.
struct TraceTitle {
    int rank = 0;
    int world_size = 1;
    int round = 0;
    /// The group's name in the store: the same on all of its ranks.
    std::string group;
    std::string error;
};

/// The text of the file (docs/sdk-call-trace.md).
std::string text_of(const TraceTitle& title, const std::vector<CallTrace::Entry>& calls);

/// The path of the trace: beside the error file, when that has its own folder. Else empty.
std::string trace_path(const std::string& error_file);

/// Appends the text to the file with one write. When that fails, returns false and nothing is
/// appended.
bool append_trace(const std::string& path, const std::string& text);

}  // namespace ddprun::groups
