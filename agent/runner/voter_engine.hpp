// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/runner/peer_calls.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/voters/voter.hpp"
#include "rendezvous/witness/lease_engine.hpp"
#include "rendezvous/witness/voter_requests.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::agent {

/// Keeps the record of the job's leader on up to five of the job's own processes: the shell of
/// witness::VoterRequests, and this process's voter. Other voters are asked at their peer ports, a
/// witness at the port of its `ddprun-rendezvous`.
///
/// Lives on the agent's thread. Requires: there is one of them for a process and job; `calls` and
/// `random` outlive it.
class VoterEngine : public witness::LeaseEngine {
public:
    /// This host, as others see it: its numeric address, and the port of `calls`.
    struct Place {
        std::string host_name;
        Endpoint peer;
    };
    using OnChanged = std::function<void(Result<control::Voters> voters)>;

    /// `process`: the nonce of this process, which is its voter's too, besides those of
    /// `answer_as`. Requires: `voters::is_name(job)`.
    VoterEngine(
        boost::asio::io_context& io,
        PeerCalls& calls,
        std::string job,
        Nonce process,
        Place place,
        Random& random);
    ~VoterEngine() override;

    void ask(witness::LeaseRequest request, OnAnswer on_answer) override;
    /// There are no files.
    void use(witness::EngineAccess) override {}
    const std::string& local_address() const override { return place_.peer.host; }

    /// Creates the job's record, with this process as the only voter. Returns false if this process
    /// knows of another record of the job, or has voted about one.
    ///
    /// Requires: no other process has a record of the job. The caller has asked those that could.
    bool create(Nonce lineage);
    /// The process's node joins under this nonce. If it is another one, the voter keeps what it has
    /// promised, and answers under both.
    void answer_as(Nonce name);
    /// What a message of the leader says about the voters.
    void known(control::Voters voters);
    /// None: no voters are known.
    std::optional<control::Voters> known() const { return driver_.machine().known(); }
    /// VoterRequests::shared_record.
    std::optional<Nonce> shared_record() const { return driver_.machine().shared_record(); }
    /// VoterRequests::is_lost.
    bool is_record_lost() const { return driver_.machine().is_lost(); }
    /// If this process leads in that epoch. The callback is never called from inside this function,
    /// or after the engine is destroyed.
    void change_voters(
        std::uint64_t epoch, std::vector<voters::VoterPlace> voters, OnChanged on_changed);

    /// Called when this process's voter has a record that is over (JobRecord::is_over). Never from
    /// inside a function of this class.
    void on_over(std::function<void()> call) { on_over_ = std::move(call); }
    bool is_over() const;
    /// Called when this process's voter has accepted a record. Never from inside a function of this
    /// class.
    void on_accepted(std::function<void()> call) { on_accepted_ = std::move(call); }
    /// Whether the leadership was not renewed for its ttl, as far as this process's voter knows.
    bool misses_leader() const { return voter_.misses_leader(job_, driver_.now()); }
    /// Whether this process votes, as far as it knows.
    bool is_voter() const;
    /// This process as a voter.
    voters::VoterPlace own_voter() const {
        return {place_.peer.to_string(), voter_.names().back()};
    }

private:
    using Requests = witness::VoterRequests;

    void serve();
    void perform(Requests::Effect& effect);
    void send(const Requests::Send& send);
    void on_reply(const Nonce& voter, int call, const PeerCalls::VoteReply& reply);
    std::string answer(std::string_view request);
    voters::Answer vote(const voters::Request& request);
    /// Calls it later, unless this object is destroyed before.
    void later(std::function<void()> call);

    boost::asio::io_context& io_;
    PeerCalls& calls_;
    std::string job_;
    Place place_;
    voters::Voter voter_;
    int last_request_ = 0;
    std::map<int, OnAnswer> on_answers_;
    std::map<int, OnChanged> on_changes_;
    std::function<void()> on_over_;
    std::function<void()> on_accepted_;
    int last_call_ = 0;
    /// By voter. The end of an earlier call says nothing about what was sent since.
    std::map<Nonce, int> newest_calls_;
    net::Driver<Requests> driver_;
    /// Expires with this object.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ddprun::agent
