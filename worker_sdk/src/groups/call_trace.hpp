// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The latest calls of one group, for the time after a failure: a ring of fixed size. Noting a call
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
        /// Since 1970; 0 for `ended` while it has not.
        std::int64_t launched_ms;
        std::int64_t ended_ms;
    };

    CallTrace();

    /// Returns the number of the entry, from 1 on. The other functions ignore 0, and an entry that
    /// later ones have replaced.
    std::uint64_t launched(const Collective& collective);
    void running(std::uint64_t number);
    void ended(std::uint64_t number, bool is_success);

    /// Oldest first.
    std::vector<Entry> latest() const;

private:
    Entry* find(std::uint64_t number);

    /// Not initialized: pages of calls that never come cost nothing.
    std::unique_ptr<Entry[]> entries_;
    std::uint64_t count_ = 0;
};

/// Of which group and rank a trace is.
struct TraceTitle {
    int rank = 0;
    int world_size = 1;
    int round = 0;
    /// The group's name in the store: the same on all of its ranks.
    std::string group;
    std::string error;
};

/// As in the file (docs/sdk-call-trace.md).
std::string text_of(const TraceTitle& title, const std::vector<CallTrace::Entry>& calls);

/// Where the file belongs: beside the error file, where that has a folder of its own. Else empty.
std::string trace_path(const std::string& error_file);

/// Adds the text to the file, with one write. False when it cannot; then nothing is added.
bool append_trace(const std::string& path, const std::string& text);

}  // namespace ddprun::groups
