// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::test {

/// A memory cgroup of this test's own, with a limit. Removed at the end of the scope; requires that
/// its members have ended by then.
class MemoryCgroup {
public:
    explicit MemoryCgroup(int limit_mebibytes);
    ~MemoryCgroup();
    MemoryCgroup(const MemoryCgroup&) = delete;
    MemoryCgroup& operator=(const MemoryCgroup&) = delete;

    /// Why there is none on this machine; empty: it exists.
    const std::string& why_not() const { return why_not_; }
    /// A process that writes its pid into it becomes a member.
    std::string members_file() const { return folder_ + "/cgroup.procs"; }

private:
    bool make(const std::string& parent, const std::string& limit_file, const std::string& limit);

    std::string folder_;
    std::string why_not_;
};

}  // namespace ddprun::test
