// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/voters/job_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// What can be done with the register, each as a function of its value.
namespace ddprun::voters {

struct Read {
    bool operator==(const Read&) const = default;
};
/// Makes this process the leader, if there is none, or its leadership has not been renewed for its
/// ttl. The new epoch is above `known_epoch`, the newest that this process has heard of.
struct Take {
    std::string name;
    std::string address;
    Duration ttl{};
    std::uint64_t known_epoch = 0;
    bool operator==(const Take&) const = default;
};
/// The other changes are made only if this process leads in that epoch.
struct Renew {
    std::uint64_t epoch = 0;
    bool operator==(const Renew&) const = default;
};
/// Changes the voters in two steps. A change that an earlier leader has begun is completed before.
struct ChangeVoters {
    std::uint64_t epoch = 0;
    std::vector<VoterPlace> voters;
    bool operator==(const ChangeVoters&) const = default;
};
/// Replaces the ends in the record. `ends` includes the earlier ones that are still kept.
struct RecordEnd {
    std::uint64_t epoch = 0;
    std::string ends;
    bool operator==(const RecordEnd&) const = default;
};
struct StepDown {
    std::uint64_t epoch = 0;
    bool operator==(const StepDown&) const = default;
};
using Change = std::variant<Read, Take, Renew, ChangeVoters, RecordEnd, StepDown>;

enum class Outcome : std::uint8_t {
    done,
    held,           ///< another process leads, and its leadership may last yet
    not_leader,     ///< this process does not lead in that epoch
    no_number_left  ///< epochs, or versions of the voters, are used up
};

/// The value that a change is applied to.
struct Reading {
    const JobRecord& record;
    /// How long ago its leader was elected or last renewed, at least.
    Duration age;
    /// A record with these voters is known to be chosen.
    bool are_voters_chosen;
};

struct Verdict {
    Outcome outcome = Outcome::done;
    /// The new value; none: it stays.
    std::optional<JobRecord> next = std::nullopt;
    /// When this is chosen, the change needs another step.
    bool is_step = false;
};

/// `process` is that of the proposer, `counter` that of the ballot.
Verdict judge(
    const Change& change, const Reading& reading, const Nonce& process, std::uint64_t counter);

/// Why the change cannot be made, whatever the register has; empty: it can.
std::string problem_of(const Change& change);

std::string describe(const Change& change);
std::string_view name_of(Outcome outcome);

}  // namespace ddprun::voters
