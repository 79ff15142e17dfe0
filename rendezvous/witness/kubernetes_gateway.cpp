// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/kubernetes_gateway.hpp"

#include "rendezvous/base/base64.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

namespace ddprun::witness::kubernetes {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* api_version = "coordination.k8s.io/v1";
constexpr const char* run_id_key = "ddprun/run-id";
constexpr const char* endpoint_key = "ddprun/endpoint";
constexpr const char* epoch_key = "ddprun/epoch";
constexpr const char* ended_key = "ddprun/ended";

constexpr std::size_t most_quoted = 120;
constexpr std::size_t most_quoted_of_message = 400;
constexpr int http_ok = 200;
constexpr int http_created = 201;
constexpr int http_unauthorized = 401;
constexpr int http_forbidden = 403;
constexpr int http_not_found = 404;
constexpr int http_conflict = 409;
/// A longer lease would keep other nodes from leading after its holder is gone.
constexpr std::int64_t most_duration_s = 3'600;

std::string quoted(std::string_view text, std::size_t most) {
    std::string result{beginning_of(text, most)};
    for (auto& letter : result)
        if (static_cast<unsigned char>(letter) < ' ') letter = ' ';
    return "'" + result + "'";
}

std::string path_of(const LeasePlace& place) {
    return std::string{"/apis/"} + api_version + "/namespaces/" + place.space + "/leases";
}

/// Texts that are no UTF-8 must not end the program.
std::string dumped(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The object of this name; an empty one if there is none.
Json object_in(const Json& json, const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_object() ? *found : Json::object();
}

std::string text_in(const Json& json, const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

bool has(const Json& json, const char* name) {
    const auto found = json.find(name);
    return found != json.end() && !found->is_null();
}

/// 0: no number, or none above 0.
std::uint64_t number_in(const Json& json, const char* name) {
    const auto found = json.find(name);
    if (found == json.end()) return 0;
    if (found->is_number_unsigned()) return found->get<std::uint64_t>();
    if (!found->is_string()) return 0;
    const auto& text = found->get_ref<const std::string&>();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

Failure wrong(const LeasePlace& place, const std::string& what) {
    return {system_code(EPROTO), "the Lease " + describe(place) + " " + what};
}

/// The text of an error of the API server (a Status object).
std::optional<std::string> message_in(std::string_view body) {
    const auto json = Json::parse(body, nullptr, false);
    if (!json.is_object() || text_in(json, "kind") != "Status") return std::nullopt;
    return text_in(json, "message");
}

std::string advice(const LeasePlace& place, int status) {
    if (status == http_unauthorized)
        return " (it does not accept the token of the pod's service account, which is read again)";
    if (status == http_forbidden)
        return " (bind a Role with the verbs get, create and update for leases of "
               "coordination.k8s.io in the namespace " +
               place.space +
               " to the pod's service account, as examples/kubernetes/lease-role.yaml does)";
    return {};
}

Result<Lease> lease_in(const LeasePlace& place, const Json& json, std::string_view text) {
    const auto metadata = object_in(json, "metadata");
    const auto spec = object_in(json, "spec");
    const auto annotations = object_in(metadata, "annotations");
    Lease lease{std::string{text}, text_in(metadata, "resourceVersion")};
    if (lease.version.empty()) return wrong(place, "has no resourceVersion");
    lease.run_id = text_in(annotations, run_id_key);
    lease.leader.nonce = text_in(spec, "holderIdentity");
    lease.leader.endpoint = text_in(annotations, endpoint_key);
    lease.leader.epoch = number_in(annotations, epoch_key);
    if (has(annotations, epoch_key) && lease.leader.epoch == 0)
        return wrong(place, std::string{"has no legible annotation "} + epoch_key);
    lease.acquired = text_in(spec, "acquireTime");
    lease.renewed = text_in(spec, "renewTime");
    const auto ended = from_base64(text_in(annotations, ended_key));
    if (!ended) return wrong(place, std::string{"has no legible annotation "} + ended_key);
    lease.ended = *ended;
    const auto& holder = lease.leader.nonce;
    // Another program's Lease has no holder between two of its leaders. An empty Lease, made before
    // the job, has none of these.
    const bool is_used =
        !holder.empty() || has(spec, "acquireTime") || has(spec, "leaseTransitions");
    if (lease.run_id.empty() && is_used)
        return wrong(
            place,
            "belongs to another program" +
                (holder.empty() ? "" : ", its holder is " + quoted(holder, most_quoted)) +
                ": give this job a Lease of its own");
    if (holder.empty()) return lease;
    if (lease.leader.endpoint.empty() || lease.leader.epoch == 0)
        return wrong(place, "has a holder without the annotations of one");
    const auto duration_s = number_in(spec, "leaseDurationSeconds");
    if (duration_s == 0 || duration_s > static_cast<std::uint64_t>(most_duration_s))
        return wrong(
            place,
            "has a leaseDurationSeconds that is not from 1 to " + std::to_string(most_duration_s));
    lease.duration = std::chrono::seconds{duration_s};
    return lease;
}

bool is_own(const Lease& lease, const Job& job, const Candidacy& candidacy) {
    return lease.run_id == job.run_id && lease.leader.nonce == candidacy.leader.nonce &&
           lease.leader.epoch == candidacy.leader.epoch;
}

/// Whether another candidate may not take the Lease. That of this process never expires here: the
/// election withdraws it.
bool is_held(const Lease& lease, const Job& job, bool is_expired) {
    return !lease.leader.nonce.empty() && (!is_expired || lease.leader.nonce == job.nonce);
}

Result<Record> record_in(const LeasePlace& place, const Job& job, const Facts& facts) {
    Record record;
    if (!facts.lease) return record;
    const auto& lease = *facts.lease;
    const bool is_of_this_job = lease.run_id == job.run_id;
    const bool holds = is_held(lease, job, facts.is_expired);
    if (holds && !is_of_this_job)
        return wrong(
            place,
            "is used by the job " + quoted(lease.run_id, most_quoted) +
                ": give each job a Lease of its own, and its nodes one --rdzv-id");
    // The end of a job removes its epoch. Without it the nodes of that job, which may go on, would
    // elect again from epoch 1.
    if (!is_of_this_job && lease.leader.epoch > 0)
        return wrong(
            place,
            "is still of the job " + quoted(lease.run_id, most_quoted) +
                ", which has no leader now: give each job a Lease of its own; if that job is over, "
                "remove the Lease: kubectl delete lease -n " +
                place.space + " " + place.name);
    if (holds) record.held = Candidacy{lease.leader};
    record.epoch = lease.leader.epoch;
    return record;
}

/// The object to write, with its parts in place.
struct Draft {
    explicit Draft(const Lease& lease) : object(Json::parse(lease.text, nullptr, false)) {
        for (const auto* part : {"metadata", "spec"})
            object[part] = object_in(object, part);
        object["metadata"]["annotations"] = object_in(object["metadata"], "annotations");
    }
    Draft(const LeasePlace& place) {
        object = {
            {"apiVersion", api_version},
            {"kind", "Lease"},
            {"metadata",
             {{"name", place.name}, {"namespace", place.space}, {"annotations", Json::object()}}},
            {"spec", Json::object()}};
    }
    Json& annotations() { return object["metadata"]["annotations"]; }
    Json& spec() { return object["spec"]; }

    Json object;
};

Write put(const LeasePlace& place, const Draft& draft, LeaseAnswer answer) {
    return {
        {Method::put, path_of(place) + "/" + place.name, dumped(draft.object)}, std::move(answer)};
}

Step take(const LeasePlace& place, const Job& job, const Leader& leader, const Facts& facts) {
    auto draft = facts.lease ? Draft{*facts.lease} : Draft{place};
    const bool is_of_this_job = facts.lease && facts.lease->run_id == job.run_id;
    auto& spec = draft.spec();
    constexpr std::uint64_t most_transitions = 2'147'483'647;
    const auto transitions = number_in(spec, "leaseTransitions");
    spec["holderIdentity"] = leader.nonce;
    spec["leaseDurationSeconds"] = facts.ttl_s;
    spec["acquireTime"] = facts.time;
    spec["renewTime"] = facts.time;
    spec["leaseTransitions"] = facts.lease && transitions < most_transitions ? transitions + 1 : 0;
    auto& annotations = draft.annotations();
    if (!is_of_this_job) annotations.erase(ended_key);
    annotations[run_id_key] = job.run_id;
    annotations[endpoint_key] = leader.endpoint;
    annotations[epoch_key] = std::to_string(leader.epoch);
    const Campaigned won{true, 1, {}, is_of_this_job ? facts.lease->ended : std::string{}};
    if (facts.lease) return put(place, draft, won);
    return Write{{Method::post, path_of(place), dumped(draft.object)}, won};
}

Result<Step> campaign(
    const LeasePlace& place, const Job& job, const Leader& leader, const Facts& facts) {
    auto record = record_in(place, job, facts);
    if (!record) return record.error();
    const bool is_free = !record->held && record->epoch < leader.epoch;
    if (is_free) return take(place, job, leader, facts);
    return Step{LeaseAnswer{Campaigned{false, 0, std::move(*record), {}}}};
}

/// The duration is written too: another program may have changed it.
Draft renewed(const Lease& lease, const Facts& facts) {
    Draft draft{lease};
    draft.spec()["leaseDurationSeconds"] = facts.ttl_s;
    draft.spec()["renewTime"] = facts.time;
    return draft;
}

/// Ends the leadership. client-go writes the same two fields.
Draft released(const Lease& lease, const Facts& facts) {
    Draft draft{lease};
    draft.spec()["holderIdentity"] = "";
    draft.spec()["leaseDurationSeconds"] = 1;
    draft.spec()["renewTime"] = facts.time;
    draft.annotations().erase(endpoint_key);
    return draft;
}

}  // namespace

void Observation::see(const Lease& lease, Instant now) {
    auto renewal = renewal_of(lease);
    if (seen_ == renewal) return;
    seen_ = std::move(renewal);
    since_ = now;
}

bool Observation::is_expired(const Lease& lease, Duration ttl, Instant now) const {
    return seen_ == renewal_of(lease) && now - since_ >= std::max(lease.duration, ttl);
}

Observation::Renewal Observation::renewal_of(const Lease& lease) {
    return {lease.leader.nonce, lease.leader.epoch, lease.acquired, lease.renewed, lease.duration};
}

Result<std::optional<Lease>> read_lease(
    const LeasePlace& place, int status, std::string_view body) {
    const auto json = Json::parse(body, nullptr, false);
    const bool is_of_kubernetes = json.is_object() && json.contains("kind");
    if (status == http_not_found && message_in(body)) return std::optional<Lease>{};
    if (status != http_ok || !is_of_kubernetes || text_in(json, "kind") != "Lease")
        return Failure{system_code(EPROTO), describe_error(place, status, body)};
    auto lease = lease_in(place, json, body);
    if (!lease) return lease.error();
    return std::optional{std::move(*lease)};
}

Call read(const LeasePlace& place) {
    return {Method::get, path_of(place) + "/" + place.name};
}

Result<Step> step(
    const LeasePlace& place, const Job& job, const LeaseRequest& request, const Facts& facts) {
    // The Lease if this candidacy still leads by it.
    const auto own = [&](const Candidacy& candidacy) {
        return facts.lease && is_own(*facts.lease, job, candidacy) ? &*facts.lease : nullptr;
    };
    const auto answer = [](auto value) -> Result<Step> { return Step{LeaseAnswer{value}}; };
    return std::visit(
        Overloaded{
            [&](ReadRecord) -> Result<Step> {
                auto record = record_in(place, job, facts);
                if (!record) return record.error();
                return answer(std::move(*record));
            },
            // A Lease has its own duration, and how jobs have ended stays until it is removed.
            [&](const GrantLease& asked) {
                return answer(Grant{1, asked.ttl_s});
            },
            [&](const Campaign& asked) {
                return campaign(place, job, asked.candidacy.leader, facts);
            },
            [&](const KeepLease& asked) -> Result<Step> {
                const auto* lease = own(asked.candidacy);
                if (lease == nullptr) return answer(Kept{0});
                return Step{put(place, renewed(*lease, facts), Kept{facts.ttl_s})};
            },
            [&](const Revoke& asked) -> Result<Step> {
                const auto* lease = own(asked.candidacy);
                if (lease == nullptr) return answer(Done{});
                return Step{put(place, released(*lease, facts), Done{})};
            },
            [&](const RecordEnd& asked) -> Result<Step> {
                const auto* lease = own(asked.candidacy);
                if (lease == nullptr) return answer(EndStored{false});
                auto draft = renewed(*lease, facts);
                draft.annotations()[ended_key] = to_base64(asked.ended);
                return Step{put(place, draft, EndStored{true})};
            },
            [&](const Erase& asked) -> Result<Step> {
                const auto* lease = own(asked.candidacy);
                if (lease == nullptr) return answer(Done{});
                auto draft = released(*lease, facts);
                draft.annotations().erase(epoch_key);
                return Step{put(place, draft, Done{})};
            },
        },
        request);
}

Outcome outcome_of(int status) {
    if (status == http_ok || status == http_created) return Outcome::performed;
    return status == http_conflict || status == http_not_found ? Outcome::outdated
                                                               : Outcome::refused;
}

std::string describe_error(const LeasePlace& place, int status, std::string_view body) {
    if (const auto message = message_in(body))
        return "HTTP status " + std::to_string(status) + ", " +
               quoted(*message, most_quoted_of_message) + advice(place, status);
    return "HTTP status " + std::to_string(status) +
           ", no answer of Kubernetes' API: " + quoted(body, most_quoted);
}

}  // namespace ddprun::witness::kubernetes
