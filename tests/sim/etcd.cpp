// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/etcd.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

std::int64_t number_in(const Json& object, const char* name) {
    return std::stoll(object.at(name).get<std::string>());
}

Failure no_answer(const char* why) {
    return Failure{system_code(EHOSTUNREACH), why};
}

/// A request; it ends once, with an answer, an error or its time limit.
struct Question {
    Etcd::OnAnswer on_answer;
    void end(Result<std::string> body) {
        if (const auto done = std::exchange(on_answer, nullptr)) done(std::move(body));
    }
};

}  // namespace

void Etcd::ask(const std::string& from, const witness::etcd::Request& request, OnAnswer on_answer) {
    auto& world = network_.world();
    const auto question = std::make_shared<Question>(Question{std::move(on_answer)});
    const bool is_reached = network_.connects(from, place);
    if (is_reached && state_ == State::gone)
        return world.after(1ms, [question] { question->end(no_answer("etcd: refused")); });
    world.after(
        limits::http_request_timeout, [question] { question->end(no_answer("etcd: no answer")); });
    if (!is_reached) return;
    const auto link = network_.connect(from, place);
    link->attach(
        Link::client,
        {[question](std::string body) { question->end(std::move(body)); },
         [question] { question->end(no_answer("etcd: end of file")); }});
    link->attach(
        Link::server,
        {[this, weak = std::weak_ptr{link}](const std::string& bytes) {
             if (const auto alive = weak.lock()) received(alive, bytes);
         },
         {}});
    link->send(Link::client, request.path + '\n' + request.body);
}

void Etcd::received(const std::shared_ptr<Link>& link, const std::string& bytes) {
    if (state_ == State::gone) return link->reset(Link::client);
    if (state_ == State::stopped) return waiting_.push_back({link, bytes});
    const auto line_end = bytes.find('\n');
    auto body = answer({bytes.substr(0, line_end), bytes.substr(line_end + 1)});
    if (lost_answers_ > 0) {
        --lost_answers_;
        return;
    }
    if (slowest_ == Duration{}) return link->send(Link::server, std::move(body));
    auto& world = network_.world();
    const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(slowest_).count();
    world.after(
        std::chrono::milliseconds{world.any(0, static_cast<int>(longest))},
        [link, body = std::move(body)] { link->send(Link::server, body); });
}

void Etcd::stop() {
    if (state_ == State::up) state_ = State::stopped;
}

void Etcd::kill() {
    state_ = State::gone;
    for (const auto& waiting : std::exchange(waiting_, {}))
        waiting.link->reset(Link::client);
}

void Etcd::go_on() {
    if (state_ == State::gone)
        for (auto& [id, lease] : leases_)
            lease.ends_at = network_.world().now() + lease.ttl;
    if (std::exchange(state_, State::up) == State::up) return;
    for (const auto& waiting : std::exchange(waiting_, {}))
        received(waiting.link, waiting.bytes);
}

std::optional<witness::Leader> Etcd::leader(const std::string& run_id) {
    if (state_ == State::up) end_leases();
    auto& known = known_leaders_[run_id];
    if (known.revision == revision_) return known.leader;
    const witness::ReadRecord read;
    const auto keys = witness::etcd::keys_of("/ddprun", run_id);
    const auto answer =
        witness::etcd::read_answer(read, transact(witness::etcd::write(keys, read).body));
    require(answer.has_value(), "the simulated etcd answers as the real one");
    known = {revision_, std::nullopt};
    if (const auto& held = std::get<witness::Record>(*answer).held) known.leader = held->leader;
    return known.leader;
}

/// Leases end exactly in time; with a real etcd up to half a second later.
void Etcd::end_leases() {
    const auto now = network_.world().now();
    std::vector<std::int64_t> ended;
    for (const auto& [id, lease] : leases_)
        if (now >= lease.ends_at) ended.push_back(id);
    for (const auto id : ended)
        revoke(id);
}

void Etcd::revoke(std::int64_t lease) {
    if (leases_.erase(lease) == 0) return;
    ++revision_;
    std::erase_if(keys_, [&](const auto& key) { return key.second.lease == lease; });
}

std::string Etcd::answer(const witness::etcd::Request& request) {
    end_leases();
    const auto now = network_.world().now();
    if (request.path == "/v3/kv/txn") return transact(request.body);
    const auto body = Json::parse(request.body);
    if (request.path == "/v3/lease/grant") {
        const auto ttl = std::chrono::seconds{number_in(body, "TTL")};
        leases_[++last_lease_] = {ttl, now + ttl};
        return Json{{"ID", std::to_string(last_lease_)}, {"TTL", std::to_string(ttl.count())}}
            .dump();
    }
    const auto id = number_in(body, "ID");
    if (request.path == "/v3/lease/revoke") {
        revoke(id);
        return "{}";
    }
    require(request.path == "/v3/lease/keepalive", "the product asks nothing else");
    const auto found = leases_.find(id);
    Json result{{"ID", std::to_string(id)}};
    if (found != leases_.end()) {
        found->second.ends_at = now + found->second.ttl;
        const auto ttl = std::chrono::duration_cast<std::chrono::seconds>(found->second.ttl);
        result["TTL"] = std::to_string(ttl.count());
    }
    return Json{{"result", std::move(result)}}.dump() + "\n";
}

std::string Etcd::transact(const std::string& body) {
    const auto txn = Json::parse(body);
    const auto holds = [&](const Json& compare) {
        const auto found = keys_.find(compare.at("key").get<std::string>());
        const bool is_of_creation = compare.at("target") == "CREATE";
        const auto wanted = number_in(compare, is_of_creation ? "create_revision" : "mod_revision");
        if (found == keys_.end()) return wanted == 0;
        return wanted ==
               (is_of_creation ? found->second.create_revision : found->second.mod_revision);
    };
    const auto& compares = txn.at("compare");
    const bool succeeded = std::all_of(compares.begin(), compares.end(), holds);
    const auto& operations = txn.at(succeeded ? "success" : "failure");
    const bool writes = std::any_of(operations.begin(), operations.end(), [](const Json& one) {
        return !one.contains("request_range");
    });
    if (writes) ++revision_;
    auto responses = Json::array();
    for (const auto& operation : operations) {
        if (operation.contains("request_put")) {
            const auto& put = operation.at("request_put");
            const auto lease = put.contains("lease") ? number_in(put, "lease") : 0;
            // As a real etcd, refuses the whole transaction.
            if (lease != 0 && !leases_.contains(lease))
                return Json{{"error", "etcdserver: requested lease not found"}}.dump();
            auto& key = keys_[put.at("key").get<std::string>()];
            if (key.mod_revision == 0) key.create_revision = revision_;
            key.value = put.at("value").get<std::string>();
            key.mod_revision = revision_;
            key.lease = lease;
            responses.push_back({{"response_put", Json::object()}});
        } else if (operation.contains("request_delete_range")) {
            keys_.erase(operation.at("request_delete_range").at("key").get<std::string>());
            ++erased_count_;
            responses.push_back({{"response_delete_range", Json::object()}});
        } else {
            const auto name = operation.at("request_range").at("key").get<std::string>();
            auto range = Json::object();
            if (const auto found = keys_.find(name); found != keys_.end()) {
                const auto& key = found->second;
                Json kv{
                    {"key", name},
                    {"value", key.value},
                    {"create_revision", std::to_string(key.create_revision)},
                    {"mod_revision", std::to_string(key.mod_revision)}};
                if (key.lease != 0) kv["lease"] = std::to_string(key.lease);
                range["kvs"] = Json::array({kv});
            }
            responses.push_back({{"response_range", std::move(range)}});
        }
    }
    Json all{{"header", Json{{"revision", std::to_string(revision_)}}}, {"responses", responses}};
    if (succeeded) all["succeeded"] = true;
    return all.dump();
}

}  // namespace ddprun::sim
