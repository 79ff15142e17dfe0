// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/witness.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <variant>

namespace ddprun::voters {
namespace {

constexpr std::size_t most_of_tenant = limits::max_voted_jobs / 5;
/// No attempt of a proposer lasts longer than some seconds.
constexpr Duration kept_without_value = std::chrono::minutes{10};
/// The processes of a job that is over have exited, or look for it no more.
constexpr Duration kept_when_over = std::chrono::hours{1};
/// A leader renews its record each 1.3 s, and identifies this witness each 10 s also while others
/// vote. One about which nothing was asked for so long is of a job that was killed, or whose nodes
/// have gone on without this voter: they have newer values.
constexpr Duration kept_unasked = std::chrono::hours{24};

Nonce addressee_of(const Request& request) {
    return std::visit([](const auto& message) { return message.voter; }, request);
}

Nonce lineage_of(const Request& request) {
    return std::visit(
        Overloaded{
            [](const Prepare& prepare) { return prepare.lineage; },
            [](const Accept& accept) { return accept.record.lineage; },
        },
        request);
}

}  // namespace

Witness::Reply Witness::answer(const std::string& tenant, std::string_view line, Instant now) {
    const auto request = message_of<Request>(line);
    if (!request) {
        const auto asked = identify_in(line);
        return {asked ? identify(tenant, *asked, now) : std::string{}};
    }
    Reply reply;
    Key key{tenant, job_of(*request), lineage_of(*request)};
    reply.line = encode(vote(std::move(key), *request, now, reply));
    return reply;
}

std::string Witness::identify(const std::string& tenant, const Identify& asked, Instant now) {
    const auto known = records_.find({tenant, asked.job, asked.lineage});
    // Its leader is there, though its present voters may be others.
    if (known != records_.end()) known->second.asked_at = now;
    return known != records_.end() || has_room(tenant, now) ? encode_identity(process_)
                                                            : std::string{no_room_line};
}

Answer Witness::vote(Key key, const Request& request, Instant now, Reply& reply) {
    if (addressee_of(request) != process_) return unknown_to(request);
    auto found = records_.find(key);
    if (found == records_.end()) {
        if (!has_room(key.tenant, now)) return unknown_to(request);
        reply.new_job = key.job;
        found = records_.emplace(std::move(key), Record{Voter{process_}, now}).first;
    }
    found->second.asked_at = now;
    return found->second.voter.handle(request, now);
}

/// Forgets what can be forgotten if there is none.
bool Witness::has_room(const std::string& tenant, Instant now) {
    const auto is_full = [&] {
        if (records_.size() >= limits::max_voted_jobs) return true;
        // Without tenants all callers are one.
        const auto is_of_tenant = [&](const auto& one) { return one.first.tenant == tenant; };
        return !tenant.empty() && std::count_if(records_.begin(), records_.end(), is_of_tenant) >=
                                      static_cast<std::ptrdiff_t>(most_of_tenant);
    };
    if (!is_full()) return true;
    forget(now);
    return !is_full();
}

void Witness::forget(Instant now) {
    std::erase_if(records_, [now](const auto& one) {
        const auto& [key, record] = one;
        const auto* accepted = record.voter.last_accepted(key.job);
        const auto kept = accepted == nullptr   ? kept_without_value
                          : accepted->is_over() ? kept_when_over
                                                : kept_unasked;
        return now - record.asked_at >= kept;
    });
}

}  // namespace ddprun::voters
