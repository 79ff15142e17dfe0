// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/etcd_client.hpp"

#include "rendezvous/tls/error.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <chrono>
#include <utility>

namespace ddprun::witness {
namespace {

constexpr int http_ok = 200;

/// A refused password is not sent again for this long: each check of a password costs etcd tens of
/// milliseconds of CPU, and a job has many nodes.
constexpr std::chrono::seconds refusal_holds_for{5};

/// Describes why a member has not performed the request.
std::string problem_of(
    const Endpoint& member, const Result<HttpAnswer>& answer, const EngineAccess& access) {
    if (answer)
        return "etcd at " + member.to_string() +
               " answers: " + etcd::describe_error(answer->status, answer->body) +
               etcd::advice(answer->body, access.login ? access.login->user : "");
    const auto& failure = answer.error();
    // The context of a TLS failure is a complete sentence already.
    const bool is_whole = failure.code.category() == tls::error_category();
    return "etcd: " + (is_whole ? failure.context : failure.describe());
}

}  // namespace

EtcdClient::EtcdClient(
    boost::asio::io_context& io,
    std::vector<Endpoint> members,
    etcd::Keys keys,
    EngineAccess access)
    : io_(io),
      keys_(std::move(keys)),
      state_(std::make_shared<State>(State{std::move(members), std::move(access)})) {}

void EtcdClient::ask(LeaseRequest request, OnAnswer on_answer) {
    auto written = etcd::write(keys_, request);
    auto on_body = [request = std::move(request),
                    on_answer = std::move(on_answer)](const Result<std::string>& body) {
        on_answer(body ? etcd::read_answer(request, *body) : body.error());
    };
    boost::asio::co_spawn(
        io_, run(io_, state_, std::move(written), std::move(on_body)), boost::asio::detached);
}

void EtcdClient::use(EngineAccess access) {
    const bool is_same_login = access.login == state_->access.login;
    state_->access = std::move(access);
    if (is_same_login) return;
    state_->token.clear();
    state_->refusal.reset();
}

/// When one member answers with an error, the others may still be able to serve, so they are
/// queried too. All requests can be repeated.
boost::asio::awaitable<void> EtcdClient::run(
    boost::asio::io_context& io,
    std::weak_ptr<State> client,
    etcd::Request request,
    OnBody on_body) {
    std::string problems;
    std::size_t asked = 0;
    std::size_t first = 0;
    for (;;) {
        Endpoint member;
        {
            const auto state = client.lock();
            if (!state) co_return;
            if (asked == 0) first = state->preferred;
            if (asked == state->members.size()) break;
            member = state->members[(first + asked) % state->members.size()];
        }
        auto answer = co_await ask_member(io, client.lock(), member, request);
        const auto state = client.lock();
        if (!state) co_return;
        if (answer) {
            state->local_address = answer->local_address;
            if (answer->status == http_ok) {
                state->preferred = (first + asked) % state->members.size();
                co_return on_body(std::move(answer->body));
            }
        }
        problems += (problems.empty() ? "" : "; ") + problem_of(member, answer, state->access);
        ++asked;
    }
    on_body(Failure{system_code(EHOSTUNREACH), problems});
}

boost::asio::awaitable<EtcdClient::Answer> EtcdClient::ask_member(
    boost::asio::io_context& io,
    std::shared_ptr<State> state,
    Endpoint member,
    etcd::Request request) {
    for (int attempt = 0;; ++attempt) {
        if (state->access.login && state->token.empty()) {
            auto granted = co_await authenticate(io, state, member);
            if (!granted || granted->status != http_ok) co_return granted;
        }
        const auto token = state->token;
        HttpRequest post{HttpRequest::Method::post, request.path, request.body, token};
        auto answer =
            co_await http_exchange(io, member, state->access.credentials, std::move(post));
        const bool is_refused =
            answer && state->access.login && etcd::is_token_refused(answer->status, answer->body);
        if (!is_refused) co_return answer;
        // Another request may already have replaced the token.
        if (state->token == token) state->token.clear();
        if (attempt > 0) co_return answer;
    }
}

/// An answer with status 200 means that there is a token, or that etcd needs none.
boost::asio::awaitable<EtcdClient::Answer> EtcdClient::authenticate(
    boost::asio::io_context& io, std::shared_ptr<State> state, Endpoint member) {
    if (state->refusal && std::chrono::steady_clock::now() < state->refused_until)
        co_return *state->refusal;
    const auto& login = *state->access.login;
    auto request = etcd::authenticate(login.user, login.password);
    HttpRequest post{HttpRequest::Method::post, std::move(request.path), std::move(request.body)};
    auto answer = co_await http_exchange(io, member, state->access.credentials, std::move(post));
    if (!answer) co_return answer;
    if (etcd::is_without_users(answer->body)) {
        answer->status = http_ok;
        co_return answer;
    }
    if (answer->status != http_ok) {
        // The text of another program's answer is not used: it might repeat the request, including
        // the password.
        if (!etcd::is_of_etcd(answer->body))
            co_return Failure{
                system_code(EPROTO),
                "no answer of etcd to a user and a password, but HTTP status " +
                    std::to_string(answer->status)};
        if (etcd::is_login_refused(answer->body)) {
            state->refusal = *answer;
            state->refused_until = std::chrono::steady_clock::now() + refusal_holds_for;
        }
        co_return answer;
    }
    auto token = etcd::read_token(answer->body);
    if (!token) co_return token.error();
    state->token = std::move(*token);
    co_return answer;
}

}  // namespace ddprun::witness
