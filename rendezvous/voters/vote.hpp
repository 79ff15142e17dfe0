// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/voters/job_record.hpp"

#include <optional>
#include <string>
#include <variant>

/// What a proposer sends to voters, and what they answer. On the wire: FORMAT.md.
namespace ddprun::voters {

using control::Ballot;

// ---- requests -----------------------------------------------------------------------------------

/// Asks for a promise to accept nothing of a lower ballot.
struct Prepare {
    std::string job;
    Nonce lineage;
    /// The process for which it is meant. Another one may have its address by now.
    Nonce voter;
    Ballot ballot;
    bool operator==(const Prepare&) const = default;
};
/// Asks to accept the record.
struct Accept {
    std::string job;
    Nonce voter;
    Ballot ballot;
    JobRecord record;
    bool operator==(const Accept&) const = default;
};
using Request = std::variant<Prepare, Accept>;

const std::string& job_of(const Request& request);

// ---- answers, each with the ballot of the request -----------------------------------------------

/// What a voter has accepted last.
struct Vote {
    Ballot ballot;
    JobRecord record;
    /// How long the voter has had this election or renewal, by its own clock.
    Duration age{};
    bool operator==(const Vote&) const = default;
};
struct Promise {
    Ballot ballot;
    /// None: it has accepted nothing yet.
    std::optional<Vote> vote;
    bool operator==(const Promise&) const = default;
};
struct Accepted {
    Ballot ballot;
    bool operator==(const Accepted&) const = default;
};
/// The voter has promised a higher ballot.
struct Refused {
    Ballot ballot;
    Ballot promised;
    bool operator==(const Refused&) const = default;
};
/// This process is not that voter, or has a record of the job with another lineage.
struct Unknown {
    Ballot ballot;
    bool operator==(const Unknown&) const = default;
};
using Answer = std::variant<Promise, Accepted, Refused, Unknown>;

/// What a process that does not vote about the request answers.
Unknown unknown_to(const Request& request);

std::string describe(const Ballot& ballot);
std::string describe(const Request& request);
std::string describe(const Answer& answer);

}  // namespace ddprun::voters
