// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/engine_access.hpp"
#include "rendezvous/witness/etcd_gateway.hpp"
#include "rendezvous/witness/http_client.hpp"
#include "rendezvous/witness/lease_engine.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::witness {

/// Sends requests to the members of an etcd cluster: first to the one that answered last, then to
/// the others. If a user is given, each request has a token that etcd issued for the user's
/// password; a token that etcd no longer accepts is replaced, once for each request.
///
/// Used on the thread of its `io_context`.
class EtcdClient : public LeaseEngine {
public:
    EtcdClient(
        boost::asio::io_context& io,
        std::vector<Endpoint> members,
        etcd::Keys keys,
        EngineAccess access = {});

    void ask(LeaseRequest request, OnAnswer on_answer) override;
    void use(EngineAccess access) override;
    const std::string& local_address() const override { return state_->local_address; }

private:
    struct State {
        std::vector<Endpoint> members;
        EngineAccess access;
        std::size_t preferred = 0;
        std::string local_address = {};
        /// The user's token, valid at all members; empty: not requested yet, or etcd needs none.
        std::string token = {};
        /// The last refusal of the user and password.
        std::optional<HttpAnswer> refusal = std::nullopt;
        std::chrono::steady_clock::time_point refused_until = {};
    };
    using Answer = Result<HttpAnswer>;
    using OnBody = std::function<void(Result<std::string> body)>;

    static boost::asio::awaitable<void> run(
        boost::asio::io_context& io,
        std::weak_ptr<State> client,
        etcd::Request request,
        OnBody on_body);
    static boost::asio::awaitable<Answer> ask_member(
        boost::asio::io_context& io,
        std::shared_ptr<State> state,
        Endpoint member,
        etcd::Request request);
    static boost::asio::awaitable<Answer> authenticate(
        boost::asio::io_context& io, std::shared_ptr<State> state, Endpoint member);

    boost::asio::io_context& io_;
    etcd::Keys keys_;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::witness
