// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/etcd_client.hpp"

#include "rendezvous/witness/http_client.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <utility>

namespace ddprun::witness {
namespace {

constexpr int http_ok = 200;

}  // namespace

EtcdClient::EtcdClient(boost::asio::io_context& io, std::vector<Endpoint> members)
    : io_(io),
      state_(std::make_shared<State>(State{std::move(members), 0, {}})) {}

void EtcdClient::ask(etcd::Request request, OnAnswer on_answer) {
    boost::asio::co_spawn(
        io_, run(io_, state_, std::move(request), std::move(on_answer)), boost::asio::detached);
}

/// A member that answers with an error may be the only one that cannot serve: the others are asked
/// too. All questions can be asked again.
boost::asio::awaitable<void> EtcdClient::run(
    boost::asio::io_context& io,
    std::weak_ptr<State> client,
    etcd::Request request,
    OnAnswer on_answer) {
    std::string problems;
    const auto first = client.lock();
    if (!first) co_return;
    const auto members = first->members;
    const auto preferred = first->preferred;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const auto index = (preferred + i) % members.size();
        auto answer = co_await http_post(io, members[index], request.path, request.body);
        const auto state = client.lock();
        if (!state) co_return;
        if (answer) {
            state->local_address = answer->local_address;
            if (answer->status == http_ok) {
                state->preferred = index;
                co_return on_answer(std::move(answer->body));
            }
        }
        problems += (problems.empty() ? "" : "; ") +
                    (answer ? "etcd at " + members[index].to_string() + " answers: " +
                                  etcd::describe_error(answer->status, answer->body)
                            : "etcd: " + answer.error().describe());
    }
    on_answer(Failure{system_code(EHOSTUNREACH), problems});
}

}  // namespace ddprun::witness
