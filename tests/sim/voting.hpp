// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"
#include "rendezvous/voters/voter.hpp"
#include "rendezvous/witness/voter_requests.hpp"
#include "tests/sim/link.hpp"
#include "tests/sim/world.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

class Cluster;

/// Where a host answers others, next to its control port.
constexpr std::uint16_t voter_port = 7;

/// A host's voter, and its requests to the voters of its job: the real Voter and VoterRequests,
/// with the real lines on simulated links. Replaces agent/runner/voter_engine and peer_calls. It
/// ends with its process: a host that is killed has forgotten what it promised, and is no voter any
/// more.
class Voting {
public:
    using OnAnswer = std::function<void(Result<witness::LeaseAnswer> answer)>;
    using OnChanged = std::function<void(Result<control::Voters> voters)>;
    using OnFound = std::function<void(bool is_found)>;

    /// The place and the address of the host; `process`: the nonce of its `ddprun`.
    Voting(
        Cluster& cluster, std::string place, std::string addr, std::string run_id, Nonce process);

    /// The nonces that the host's process has had: under each it has to answer.
    const std::vector<Nonce>& names() const { return names_; }
    control::VoterPlace own_voter() const;
    bool is_frozen() const { return is_frozen_; }

    /// Its node joins under this nonce.
    void answer_as(const Nonce& name);
    void create();
    void ask(witness::LeaseRequest request, OnAnswer on_answer);
    void change_voters(voters::ChangeVoters change, OnChanged on_changed);
    void known(control::Voters voters);
    std::optional<control::Voters> known() const { return requests_.machine().known(); }
    std::optional<Nonce> shared_record() const { return requests_.machine().shared_record(); }
    bool is_record_lost() const { return requests_.machine().is_lost(); }
    /// Whether it votes, as far as it knows.
    bool is_voter() const;
    /// The record of its own voter: a leader has stepped down after the end of the job.
    bool is_over() const;
    bool misses_leader() const { return voter_.misses_leader(run_id_, world_.now()); }
    /// Called when its own voter has such a record.
    void on_over(std::function<void()> call) { on_over_ = std::move(call); }
    /// Called when its own voter has accepted a record.
    void on_accepted(std::function<void()> call) { on_accepted_ = std::move(call); }
    /// Asks another host's process which voters the job has. Real programs have no such request
    /// yet (Known limits in rendezvous/voters/README.md).
    void ask_for_voters(const std::string& host, OnFound on_found);

    /// Asks the witness under which nonce it votes; none: it does not answer.
    void find_witness(std::function<void(std::optional<control::VoterPlace>)> on_seen);

    /// A call of another process, with its line.
    static bool is_for_voter(const std::string& line);
    void accept(const std::shared_ptr<Link>& link, const std::string& line);

    // Its process is stopped, continued, ended.
    void pause();
    void resume();
    void freeze();

private:
    using Requests = witness::VoterRequests;
    struct Reply {
        /// Empty: none came.
        std::string line;
        /// No process listens there.
        bool is_refused = false;
    };
    using OnReply = std::function<void(const Reply& reply)>;

    void perform(Requests::Effect& effect);
    void send(const Requests::Send& send);
    void on_reply(const Nonce& voter, int call, const Reply& reply);
    void call(const std::string& place, const std::string& line, OnReply on_reply);
    std::string answer(const std::string& line);
    voters::Answer vote(const voters::Request& request);
    void later(std::function<void()> action);

    Cluster& cluster_;
    World& world_;
    std::string place_;
    std::string addr_;
    std::string run_id_;
    std::vector<Nonce> names_;
    bool is_paused_ = false;
    bool is_frozen_ = false;
    voters::Voter voter_;
    std::vector<std::pair<std::shared_ptr<Link>, std::string>> waiting_;
    int last_request_ = 0;
    std::map<int, OnAnswer> on_answers_;
    std::map<int, OnChanged> on_changes_;
    std::function<void()> on_over_;
    std::function<void()> on_accepted_;
    int last_call_ = 0;
    /// By voter. The end of an earlier call says nothing about what was sent since.
    std::map<Nonce, int> newest_calls_;
    Driven<Requests> requests_;
};

}  // namespace ddprun::sim
