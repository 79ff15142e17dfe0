// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/etcd_access.hpp"
#include "rendezvous/witness/etcd_gateway.hpp"
#include "rendezvous/witness/http_client.hpp"

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
/// Used on the thread of its `io_context`. The answer callback is never called from inside `ask`,
/// or after the client is destroyed.
class EtcdClient {
public:
    using OnAnswer = std::function<void(Result<std::string> body)>;

    EtcdClient(boost::asio::io_context& io, std::vector<Endpoint> members, EtcdAccess access = {});

    void ask(etcd::Request request, OnAnswer on_answer);

    /// For all later requests: the files of the certificates or the password have changed.
    void use(EtcdAccess access);

    /// This machine's address on the connection to the member that answered last; empty: no member
    /// has answered yet.
    const std::string& local_address() const { return state_->local_address; }

private:
    struct State {
        std::vector<Endpoint> members;
        EtcdAccess access;
        std::size_t preferred = 0;
        std::string local_address = {};
        /// The user's token, valid at all members; empty: not requested yet, or etcd needs none.
        std::string token = {};
        /// The last refusal of the user and password.
        std::optional<HttpAnswer> refusal = std::nullopt;
        std::chrono::steady_clock::time_point refused_until = {};
    };
    using Answer = Result<HttpAnswer>;

    static boost::asio::awaitable<void> run(
        boost::asio::io_context& io,
        std::weak_ptr<State> client,
        etcd::Request request,
        OnAnswer on_answer);
    static boost::asio::awaitable<Answer> ask_member(
        boost::asio::io_context& io,
        std::shared_ptr<State> state,
        Endpoint member,
        etcd::Request request);
    static boost::asio::awaitable<Answer> authenticate(
        boost::asio::io_context& io, std::shared_ptr<State> state, Endpoint member);

    boost::asio::io_context& io_;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::witness
