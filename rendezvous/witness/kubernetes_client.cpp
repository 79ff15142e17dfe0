// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/kubernetes_client.hpp"

#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/wall_time.hpp"
#include "rendezvous/tls/error.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::witness {
namespace {

/// How often a write is repeated that another program's write has made outdated.
constexpr int most_attempts = 3;

/// The time as Kubernetes' MicroTime has it: its parser takes six digits of a second and no others.
std::string micro_time() {
    auto text = utc_time();
    text.insert(text.size() - 1, "000");
    return text;
}

HttpRequest::Method method_of(kubernetes::Method method) {
    switch (method) {
        case kubernetes::Method::get: return HttpRequest::Method::get;
        case kubernetes::Method::post: return HttpRequest::Method::post;
        case kubernetes::Method::put: return HttpRequest::Method::put;
    }
    contradiction("a method of no kind", __FILE__, __LINE__);
}

std::string answers(const kubernetes::LeasePlace& place) {
    return "Kubernetes at " + place.server.to_string() + " answers: ";
}

/// The failure to reach the API server, for a message.
Failure unreached(const Failure& failure) {
    // The context of a TLS failure is a complete sentence already.
    const bool is_whole = failure.code.category() == tls::error_category();
    return {failure.code, "Kubernetes: " + (is_whole ? failure.context : failure.describe())};
}

}  // namespace

KubernetesClient::KubernetesClient(
    boost::asio::io_context& io,
    kubernetes::LeasePlace place,
    kubernetes::Job job,
    EngineAccess access)
    : io_(io),
      state_(std::make_shared<State>(State{std::move(place), std::move(job), std::move(access)})) {}

void KubernetesClient::ask(LeaseRequest request, OnAnswer on_answer) {
    ++state_->newest;
    // A Lease has its own duration: there is nothing to request.
    if (const auto* asked = std::get_if<GrantLease>(&request))
        return boost::asio::post(
            io_,
            [on_answer = std::move(on_answer),
             alive = std::weak_ptr{state_},
             ttl_s = asked->ttl_s] {
                if (!alive.expired()) on_answer(Grant{1, ttl_s});
            });
    boost::asio::co_spawn(
        io_,
        run(io_, state_, state_->newest, std::move(request), std::move(on_answer)),
        boost::asio::detached);
}

void KubernetesClient::use(EngineAccess access) {
    state_->access = std::move(access);
}

boost::asio::awaitable<Result<HttpAnswer>> KubernetesClient::call(
    boost::asio::io_context& io, std::shared_ptr<State> state, kubernetes::Call call) {
    HttpRequest request{
        method_of(call.method),
        std::move(call.path),
        std::move(call.body),
        "Bearer " + state->access.token};
    auto answer = co_await http_exchange(
        io, state->place.server, state->access.credentials, std::move(request));
    if (!answer) co_return unreached(answer.error());
    state->local_address = answer->local_address;
    co_return answer;
}

boost::asio::awaitable<void> KubernetesClient::run(
    boost::asio::io_context& io,
    std::weak_ptr<State> client,
    int number,
    LeaseRequest request,
    OnAnswer on_answer) {
    using namespace kubernetes;
    // None: the client is gone, or has a newer request.
    const auto current = [&client, number] {
        auto state = client.lock();
        return state && state->newest == number ? state : nullptr;
    };
    std::string problem;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        auto state = current();
        if (!state) co_return;
        const auto place = state->place;
        auto read = co_await call(io, std::exchange(state, nullptr), kubernetes::read(place));
        if (!(state = current())) co_return;
        if (!read) co_return on_answer(read.error());
        auto next = decide(*state, request, *read);
        if (!next)
            co_return on_answer(Failure{next.error().code, answers(place) + next.error().context});
        if (auto* known = std::get_if<LeaseAnswer>(&*next)) co_return on_answer(std::move(*known));
        auto& write = std::get<Write>(*next);
        auto written = co_await call(io, std::exchange(state, nullptr), std::move(write.call));
        if (!current()) co_return;
        if (!written) co_return on_answer(written.error());
        const auto outcome = outcome_of(written->status);
        if (outcome == Outcome::performed) co_return on_answer(std::move(write.answer));
        problem = describe_error(place, written->status, written->body);
        if (outcome == Outcome::refused) break;
    }
    const auto state = current();
    if (state) on_answer(Failure{system_code(EPROTO), answers(state->place) + problem});
}

/// What the request comes to, by the Lease that was just received.
Result<kubernetes::Step> KubernetesClient::decide(
    State& state, const LeaseRequest& request, const HttpAnswer& read) {
    auto lease = kubernetes::read_lease(state.place, read.status, read.body);
    if (!lease) return lease.error();
    const auto now = Clock::now();
    kubernetes::Facts facts;
    facts.time = micro_time();
    facts.ttl_s = static_cast<std::int64_t>(in_seconds(limits::etcd_ttl));
    if (*lease) {
        state.observation.see(**lease, now);
        facts.is_expired = state.observation.is_expired(**lease, limits::etcd_ttl, now);
    }
    facts.lease = std::move(*lease);
    return kubernetes::step(state.place, state.job, request, facts);
}

}  // namespace ddprun::witness
