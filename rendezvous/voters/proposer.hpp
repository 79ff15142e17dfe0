// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/voters/change.hpp"
#include "rendezvous/voters/vote.hpp"
#include "rendezvous/voters/voter_set.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::voters {

/// Reads and changes the register of one job, one operation at a time, by asking its voters
/// (FORMAT.md has the argument why that is safe). Its own process's voter is asked as the others
/// are. Which operation is tried, and when one that failed is tried again, is the caller's
/// decision.
///
///   idle       --Wanted-->             preparing  Send Prepare to all known voters
///   preparing  --a promise-->          preparing  Send Prepare to the voters in its record that
///                                                 were not asked yet
///   preparing  --a quorum-->           accepting  Send Accept with the new value, or the old one
///   preparing  --a quorum has the
///                same, unchanged-->    idle       Decided
///   accepting  --a quorum-->           idle       Decided
///   accepting  --a quorum, StepDown--> accepting  waits for the other voters, for a short time
///   accepting  --a quorum, a step-->   preparing  Send Prepare for the next step
///   either     --no quorum is left-->  idle       Failed
///   either     --too late-->           idle       Failed
///
/// The quorum of the first phase is that of the voters in the value that was found, that of the
/// second one of the voters in the value that is written.
///
/// Requires: there is one of them for a process and job, since no ballot is used twice.
class Proposer {
public:
    struct Config {
        /// The nonce of this process.
        Nonce process;
        /// Requires: `is_name(job)`.
        std::string job;
        Nonce lineage;
        /// Voters of the job. They may be outdated, if one of them that is left knows newer ones.
        VoterSet voters;
    };

    // ---- events ----

    /// Answered by Decided or Failed, with that number.
    struct Wanted {
        int operation;
        Change change;
    };
    struct Answered {
        Nonce voter;
        Answer answer;
    };
    /// What was sent to that voter will not be answered: there is no connection to it.
    struct Unreached {
        Nonce voter;
    };
    /// Another process says that a record with these voters was accepted in that ballot.
    struct Known {
        Ballot ballot;
        VoterSet voters;
    };
    struct DeadlinePassed {};
    using Event = std::variant<Wanted, Answered, Unreached, Known, DeadlinePassed>;

    // ---- effects ----

    struct Send {
        VoterPlace to;
        Request request;
        bool operator==(const Send&) const = default;
    };
    /// The outcome holds for the value that the register had between Wanted and this.
    struct Decided {
        int operation;
        Outcome outcome;
        JobRecord record;
        /// Of the record.
        Ballot ballot;
        /// How long ago its leader was elected or renewed, at least.
        Duration age;
        /// When the record was first sent to a voter: a leadership that was taken or renewed is
        /// counted from here.
        Instant sent_at;
        bool operator==(const Decided&) const = default;
    };
    enum class Reason : std::uint8_t {
        busy,           ///< an operation is in progress
        bad_change,     ///< names, ttl or voters that no record may have
        lost_race,      ///< another proposer has a higher ballot
        no_majority,    ///< too few voters answered
        no_record,      ///< they have none
        no_ballot_left  ///< a voter has promised the highest ballot
    };
    struct Failed {
        int operation;
        Reason reason;
        /// The change may have been made, or may still be made.
        bool may_be_done;
        bool operator==(const Failed&) const = default;
    };
    using Effect = std::variant<Send, Decided, Failed>;

    explicit Proposer(Config config) : config_(std::move(config)) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    /// The newest voters that it knows of.
    const VoterSet& voters() const { return config_.voters; }
    /// Of a record that has these voters.
    const Ballot& voters_ballot() const { return voters_ballot_; }

private:
    using Effects = std::vector<Effect>;

    struct Operation {
        int number;
        Change change;
        Instant ends_at;
        Ballot ballot = {};
        bool has_sent_record = false;
        /// The voters in a record that this operation has written.
        std::optional<VoterSet> chosen = std::nullopt;
    };
    enum class Reply : std::uint8_t { awaited, given, refused, none };
    struct Asked {
        VoterPlace voter;
        Reply reply = Reply::awaited;
        /// With a promise that was given.
        std::optional<Vote> vote = std::nullopt;
    };
    /// References to its elements stay valid when others are appended.
    using AskedVoters = std::deque<Asked>;
    struct Idle {};
    struct Preparing {
        Operation operation;
        AskedVoters asked = {};
    };
    struct Accepting {
        Operation operation;
        JobRecord record;
        Outcome outcome;
        bool is_step;
        Duration age;
        Instant sent_at;
        AskedVoters asked = {};
        /// A quorum has accepted it, and other voters are waited for.
        bool is_chosen = false;
    };
    using State = std::variant<Idle, Preparing, Accepting>;

    void on_wanted(Wanted wanted, Instant now, Effects& out);
    void on_answered(const Nonce& voter, std::optional<Answer> answer, Instant now, Effects& out);
    void on_deadline(Instant now, Effects& out);
    void prepare(Operation operation, Effects& out);
    void ask(Preparing& state, const std::vector<VoterPlace>& voters, Effects& out) const;
    void ask(Preparing& state, const VoterSet& set, Effects& out) const;
    void learn(const Ballot& ballot, const VoterSet& voters);
    void consider_promises(Instant now, Effects& out);
    void consider_acceptances(Instant now, Effects& out);
    void decide(Effects& out);
    void apply(const Vote& found, Instant now, Effects& out);
    static bool is_any(const AskedVoters& asked, Reply reply);
    void fail_without_quorum(const AskedVoters& asked, Effects& out);
    void fail(Reason reason, Effects& out);

    /// `voters` there: the newest that are known.
    Config config_;
    /// Of the record that has these voters.
    Ballot voters_ballot_;
    /// The highest that was used or heard of.
    std::uint64_t counter_ = 0;
    State state_;
};

std::string describe(const Proposer::Event& event);
std::string describe(const Proposer::Effect& effect);

}  // namespace ddprun::voters
