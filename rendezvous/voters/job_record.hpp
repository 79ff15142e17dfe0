// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/voters/voter_set.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::voters {

struct Leader {
    /// For messages: its host.
    std::string name;
    std::string address;
    /// The nonce of its process.
    Nonce nonce;
    bool operator==(const Leader&) const = default;
};

/// The value of the register: which process leads a job, which ones vote about that,
/// and how the job has ended.
struct JobRecord {
    /// Drawn when the record was created: two records of one job have different ones.
    Nonce lineage;
    /// None: the last leader has stepped down, or there was none yet.
    std::optional<Leader> leader;
    /// The number of the last leadership; 0: there was none yet.
    std::uint64_t epoch = 0;
    /// How long the leadership lasts after its last renewal.
    Duration ttl{};
    /// Of the ballot in which this leader was elected or last renewed. It is that and not a count
    /// because a renewal that was lost and is repeated must be another value: some voters may have
    /// the lost one, and count its age.
    std::uint64_t counter = 0;
    VoterSet voters;
    /// How jobs of this id have ended, as leaders have recorded it; empty: none has. For
    /// coordinator::EndRecord.
    std::string ends = {};
    bool operator==(const JobRecord&) const = default;

    /// A leader has stepped down after it had recorded an end: no node needs the voters any more.
    bool is_over() const { return !leader && !ends.empty(); }
    bool is_led_by(const Nonce& process) const { return leader && leader->nonce == process; }
};

/// Whether both are of one election or renewal, whatever else has changed since.
bool is_same_renewal(const JobRecord& a, const JobRecord& b);

/// Why this is no valid record; empty: it is one.
std::string problem_of(const Leader& leader);
std::string problem_of(const JobRecord& record);

std::string describe(const JobRecord& record);

}  // namespace ddprun::voters
