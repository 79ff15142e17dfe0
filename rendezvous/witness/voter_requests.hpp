// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/backoff.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/voters/proposer.hpp"
#include "rendezvous/witness/lease_requests.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::witness {

/// The requests of an election as changes of the record that the job's own processes keep
/// (rendezvous/voters). A change that another process's proposal has defeated, or that too few
/// voters have answered, is proposed again after a pause of random length, while there is time.
/// Driven by agent/runner/voter_engine and unit tests.
///
///   idle       --Asked, VotersWanted-->   proposing  Send
///   idle       --Asked for a lease-->     idle       Replied: the record has its own ttl
///   proposing  --decided-->               idle       Replied, Changed
///   proposing  --a campaign, undecided--> pausing    then the record is read first: the attempt
///                                                    may have succeeded
///   proposing  --Erase, no majority-->    idle       Replied: a failure. The job is over
///   proposing  --other failures-->        pausing    then proposed again
///   pausing    --no time is left-->       idle       Replied, Changed: a failure
///
/// One request and one change of the voters may be open at a time; a newer one of the same kind
/// replaces it, and the older one is answered with a failure. A request comes before a change of
/// the voters, since the leadership depends on it.
class VoterRequests {
public:
    struct Config {
        /// The nonce of this process, which is its voter's too.
        Nonce process;
        /// Requires: `voters::is_name(job)`.
        std::string job;
        /// This host, for messages of other nodes.
        std::string host;
    };

    // ---- events ----

    /// Answered by Replied. Requires: no other request or change had this number.
    struct Asked {
        int request;
        LeaseRequest what;
    };
    /// Answered by Changed. Changes the voters, if this process leads in that epoch.
    struct VotersWanted {
        int request;
        voters::ChangeVoters change;
    };
    /// What the leader or this process's own voter says. Another lineage than the first one that
    /// was known is ignored: this process's voter would not vote about it either.
    struct Known {
        control::Voters known;
    };
    /// To Send.
    struct Answered {
        Nonce voter;
        voters::Answer answer;
    };
    struct Unreached {
        Nonce voter;
        /// The connection was refused: its process has ended, and will never answer.
        bool has_ended = false;
    };
    struct DeadlinePassed {};
    using Event = std::variant<Asked, VotersWanted, Known, Answered, Unreached, DeadlinePassed>;

    // ---- effects ----

    using Send = voters::Proposer::Send;
    struct Replied {
        int request;
        Result<LeaseAnswer> answer;
    };
    struct Changed {
        int request;
        Result<control::Voters> voters;
    };
    using Effect = std::variant<Send, Replied, Changed>;

    /// `random` must outlive this object.
    VoterRequests(Config config, Random& random) : config_(std::move(config)), random_(&random) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    /// The newest voters that are known; none: no process has named any yet.
    std::optional<control::Voters> known() const;
    /// The lineage of the record, if several of its voters are known: nodes state it in their
    /// greeting.
    std::optional<Nonce> shared_record() const;
    /// In the last attempt so many of the known voters had ended that no majority of them can
    /// decide anything any more.
    bool is_lost() const;

private:
    using Effects = std::vector<Effect>;
    using Proposer = voters::Proposer;

    using What = std::variant<LeaseRequest, voters::ChangeVoters>;
    struct Task {
        int request;
        What what;
        /// No attempt begins later.
        Instant tries_until;
        Instant try_at;
        Backoff pauses;
        /// A campaign whose last attempt may have succeeded: the record is read.
        bool is_reading = false;
    };

    void on_known(control::Voters known, Instant now, Effects& out);
    void on_unreached(const Unreached& unreached, Instant now, Effects& out);
    void replace(std::optional<Task>& place, int request, What what, Instant now, Effects& out);
    void begin_what_is_due(Instant now, Effects& out);
    voters::Change change_for(const Task& task) const;
    void pass_on(Proposer::Event event, Instant now, Effects& out);
    void on_decided(const Proposer::Decided& decided, Instant now, Effects& out);
    void on_failed(const Proposer::Failed& failed, Instant now, Effects& out);
    Result<LeaseAnswer> answer_to(
        const LeaseRequest& request, const Proposer::Decided& decided) const;
    std::optional<Task>* end_operation();
    static void fail(std::optional<Task>& place, Failure failure, Effects& out);

    Config config_;
    Random* random_;
    /// None: no voters are known.
    std::optional<Proposer> proposer_;
    Nonce lineage_;
    /// Known voters whose processes have ended, as the last attempt has found.
    std::set<Nonce> ended_;
    std::optional<Task> request_;
    std::optional<Task> change_;
    /// For which request the proposer works. That request may have been replaced since.
    std::optional<int> proposing_;
};

std::string describe(const VoterRequests::Event& event);
std::string describe(const VoterRequests::Effect& effect);

}  // namespace ddprun::witness
