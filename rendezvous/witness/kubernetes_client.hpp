// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/http_client.hpp"
#include "rendezvous/witness/kubernetes_gateway.hpp"
#include "rendezvous/witness/lease_engine.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <string>

namespace ddprun::witness {

/// Performs an election's requests at the API server of Kubernetes, each as a read of the Lease and
/// a write of what was read. A request ends an earlier one that is not over: the election has then
/// stopped waiting for it, and what it still did could undo the later one.
class KubernetesClient : public LeaseEngine {
public:
    /// Requires: `access` has credentials and a token.
    KubernetesClient(
        boost::asio::io_context& io,
        kubernetes::LeasePlace place,
        kubernetes::Job job,
        EngineAccess access);

    void ask(LeaseRequest request, OnAnswer on_answer) override;
    void use(EngineAccess access) override;
    const std::string& local_address() const override { return state_->local_address; }

private:
    struct State {
        kubernetes::LeasePlace place;
        kubernetes::Job job;
        EngineAccess access;
        kubernetes::Observation observation = {};
        std::string local_address = {};
        /// The number of the last request.
        int newest = 0;
    };

    static boost::asio::awaitable<void> run(
        boost::asio::io_context& io,
        std::weak_ptr<State> client,
        int number,
        LeaseRequest request,
        OnAnswer on_answer);
    static Result<kubernetes::Step> decide(
        State& state, const LeaseRequest& request, const HttpAnswer& read);
    static boost::asio::awaitable<Result<HttpAnswer>> call(
        boost::asio::io_context& io, std::shared_ptr<State> state, kubernetes::Call call);

    boost::asio::io_context& io_;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::witness
