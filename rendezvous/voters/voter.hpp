// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/voters/vote.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::voters {

/// The acceptor of one process: what it has promised and accepted, by job. In memory only.
///
/// Requires: nothing of it is removed while the process runs, and no other process ever answers
/// under one of its nonces. A voter that forgot a promise could help to elect two leaders.
class Voter {
public:
    /// `process`: the nonce of this process.
    explicit Voter(Nonce process) : names_{process} {}

    /// From now on it answers under this nonce too. A node that was lost joins again under another
    /// nonce, and until the voters are changed the record has the earlier one. Promises are those
    /// of the process, whatever it is called. Of very many nonces the oldest one ends, except the
    /// one of the process.
    void add_name(Nonce name);
    /// The nonces under which it answers, the newest one last.
    const std::vector<Nonce>& names() const { return names_; }
    bool is_own(const Nonce& name) const;
    /// Whether it is one of these voters.
    bool is_in(const VoterSet& set) const;

    /// Creates the record of a job. This process is the only voter at first. `address`: its own,
    /// for other nodes. Returns false if it has voted about that job before.
    ///
    /// Requires: no other process may have a record of that job. The caller has asked those that
    /// could.
    bool create(const std::string& job, Nonce lineage, std::string address, Instant now);

    Answer handle(const Request& request, Instant now);

    /// What it has accepted last for that job, which need not be what the voters have chosen; none:
    /// nothing.
    const JobRecord* last_accepted(const std::string& job) const;
    /// Whether that has a leader that was not renewed for its ttl, as far as this voter knows.
    bool misses_leader(const std::string& job, Instant now) const;

private:
    struct Kept {
        Ballot ballot;
        JobRecord record;
        /// When this voter got the record's election or renewal.
        Instant renewed_at;
    };
    struct Register {
        Nonce lineage;
        Ballot promised = {};
        std::optional<Kept> accepted = std::nullopt;
    };

    /// The register of that job; none: another lineage, or too many jobs.
    Register* find(const std::string& job, const Nonce& lineage);
    Answer on_prepare(const Prepare& prepare, Instant now);
    Answer on_accept(const Accept& accept, Instant now);

    std::vector<Nonce> names_;
    std::map<std::string, Register> jobs_;
};

}  // namespace ddprun::voters
