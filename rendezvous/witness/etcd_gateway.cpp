// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/etcd_gateway.hpp"

#include "rendezvous/base/base64.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace ddprun::witness::etcd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_quoted = 120;
constexpr int http_ok = 200;

Failure strange(std::string_view what, std::string_view answer) {
    std::string quoted{answer.substr(0, most_quoted)};
    for (auto& letter : quoted)
        if (static_cast<unsigned char>(letter) < ' ') letter = ' ';
    return {system_code(EPROTO), std::string{what} + ": '" + quoted + "'"};
}

Result<Json> parse(std::string_view answer) {
    auto json = Json::parse(answer, nullptr, false);
    if (!json.is_object()) return strange("no answer of etcd's gateway", answer);
    return json;
}

/// Reads a number in the gateway's form: as text, or left out when it is 0.
template <class Number>
std::optional<Number> number(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return Number{0};
    if (found->is_number_unsigned()) {
        const auto value = found->get<std::uint64_t>();
        if (value > static_cast<std::uint64_t>(std::numeric_limits<Number>::max()))
            return std::nullopt;
        return static_cast<Number>(value);
    }
    if (!found->is_string()) return std::nullopt;
    const auto& text = found->get_ref<const std::string&>();
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// The key that a range request has returned; an empty object: there is no such key. None: the
/// answer has another form.
std::optional<Json> found_key(const Json& responses, std::size_t index) {
    if (!responses.is_array() || responses.size() <= index) return std::nullopt;
    const auto& response = responses[index];
    if (!response.is_object() || !response.contains("response_range")) return std::nullopt;
    const auto& range = response["response_range"];
    if (!range.is_object()) return std::nullopt;
    if (!range.contains("kvs")) return Json::object();
    const auto& kvs = range["kvs"];
    if (!kvs.is_array()) return std::nullopt;
    if (kvs.empty()) return Json::object();
    if (!kvs[0].is_object()) return std::nullopt;
    return kvs[0];
}

std::optional<std::string> value_of(const Json& key) {
    const auto found = key.find("value");
    if (found == key.end() || !found->is_string()) return std::nullopt;
    return from_base64(found->get_ref<const std::string&>());
}

std::optional<Leader> read_leader(const std::string& value) {
    const auto json = Json::parse(value, nullptr, false);
    if (!json.is_object()) return std::nullopt;
    Leader leader;
    for (const auto& [name, field] :
         {std::pair{"endpoint", &leader.endpoint}, std::pair{"nonce", &leader.nonce}}) {
        const auto found = json.find(name);
        if (found == json.end() || !found->is_string()) return std::nullopt;
        *field = found->get<std::string>();
    }
    const auto epoch = number<std::uint64_t>(json, "epoch");
    if (!epoch || *epoch == 0) return std::nullopt;
    leader.epoch = *epoch;
    return leader;
}

std::string write_leader(const Leader& leader) {
    return Json{
        {"endpoint", leader.endpoint},
        {"nonce", leader.nonce},
        {"epoch", std::to_string(leader.epoch)}}
        .dump();
}

Json range(const std::string& key) {
    return Json{{"request_range", Json{{"key", to_base64(key)}}}};
}

Json reads(const Keys& keys) {
    return Json::array({range(keys.leader), range(keys.epoch)});
}

/// The comparison that succeeds if the leader's key is the one that this process has written.
Json is_own(const Keys& keys, std::int64_t revision) {
    return {
        {"key", to_base64(keys.leader)},
        {"target", "MOD"},
        {"result", "EQUAL"},
        {"mod_revision", std::to_string(revision)}};
}

bool has_succeeded(const Json& json) {
    const auto succeeded = json.find("succeeded");
    return succeeded != json.end() && succeeded->is_boolean() && succeeded->get<bool>();
}

Request transaction(Json compare, Json success, Json failure) {
    return {
        "/v3/kv/txn",
        Json{
            {"compare", std::move(compare)},
            {"success", std::move(success)},
            {"failure", std::move(failure)}}
            .dump()};
}

Result<Record> record_in(const Json& json, std::string_view answer) {
    const auto responses = json.value("responses", Json::array());
    const auto leader = found_key(responses, 0);
    const auto epoch = found_key(responses, 1);
    if (!leader || !epoch) return strange("not the job's keys", answer);
    Record record;
    if (!leader->empty()) {
        const auto value = value_of(*leader);
        const auto written = value ? read_leader(*value) : std::nullopt;
        const auto lease = number<std::int64_t>(*leader, "lease");
        if (!written || !lease)
            return strange("the job's leader is not legible", value.value_or(""));
        record.held = Candidacy{*written, *lease};
    }
    if (!epoch->empty()) {
        const auto value = value_of(*epoch);
        const auto written = number<std::uint64_t>({{"epoch", value.value_or("?")}}, "epoch");
        const auto revision = number<std::int64_t>(*epoch, "mod_revision");
        if (!written || !revision || *revision <= 0)
            return strange("the job's epoch is not legible", value.value_or(""));
        record.epoch = *written;
        record.epoch_revision = *revision;
    }
    return record;
}

/// The text of etcd's error message.
std::optional<std::string> message_in(std::string_view body) {
    const auto json = Json::parse(body, nullptr, false);
    if (!json.is_object()) return std::nullopt;
    for (const auto* name : {"message", "error"})
        if (const auto found = json.find(name); found != json.end() && found->is_string())
            return found->get<std::string>();
    return std::nullopt;
}

/// Visible ASCII only, so that the value cannot change other parts of the request.
bool is_header_value(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char letter) {
        return letter > ' ' && letter <= '~';
    });
}

Request read(const Keys& keys) {
    return transaction(Json::array(), reads(keys), Json::array());
}

Request grant(std::int64_t ttl_s) {
    return {"/v3/lease/grant", Json{{"TTL", std::to_string(ttl_s)}}.dump()};
}

Request campaign(const Keys& keys, const Campaign& asked) {
    const auto& [leader, lease, none_yet] = asked.candidacy;
    const auto put = [](const std::string& key, const std::string& value) {
        return Json{{"key", to_base64(key)}, {"value", to_base64(value)}};
    };
    auto put_leader = put(keys.leader, write_leader(leader));
    put_leader["lease"] = std::to_string(lease);
    const Json is_free{
        {"key", to_base64(keys.leader)},
        {"target", "CREATE"},
        {"result", "EQUAL"},
        {"create_revision", "0"}};
    const Json is_as_read{
        {"key", to_base64(keys.epoch)},
        {"target", "MOD"},
        {"result", "EQUAL"},
        {"mod_revision", std::to_string(asked.epoch_revision)}};
    const auto put_epoch = put(keys.epoch, std::to_string(leader.epoch));
    return transaction(
        Json::array({is_free, is_as_read}),
        Json::array(
            {Json{{"request_put", put_leader}},
             Json{{"request_put", put_epoch}},
             range(keys.ended)}),
        reads(keys));
}

Request keep_alive(std::int64_t lease) {
    return {"/v3/lease/keepalive", Json{{"ID", std::to_string(lease)}}.dump()};
}

/// Its key is removed with the lease.
Request revoke(std::int64_t lease) {
    return {"/v3/lease/revoke", Json{{"ID", std::to_string(lease)}}.dump()};
}

Request record_end(const Keys& keys, const RecordEnd& asked) {
    const Json put{
        {"request_put",
         {{"key", to_base64(keys.ended)},
          {"value", to_base64(asked.ended)},
          {"lease", std::to_string(asked.lease)}}}};
    return transaction(
        Json::array({is_own(keys, asked.candidacy.revision)}), Json::array({put}), Json::array());
}

Request erase(const Keys& keys, std::int64_t revision) {
    Json all = Json::array();
    for (const auto& key : {keys.leader, keys.epoch})
        all.push_back({{"request_delete_range", {{"key", to_base64(key)}}}});
    return transaction(Json::array({is_own(keys, revision)}), std::move(all), Json::array());
}

Result<Record> read_record(std::string_view answer) {
    const auto json = parse(answer);
    if (!json) return json.error();
    return record_in(*json, answer);
}

Result<Grant> read_grant(std::string_view answer) {
    const auto json = parse(answer);
    if (!json) return json.error();
    const auto lease = number<std::int64_t>(*json, "ID");
    const auto ttl_s = number<std::int64_t>(*json, "TTL");
    if (!lease || !ttl_s || *lease <= 0 || *ttl_s <= 0) return strange("no lease", answer);
    return Grant{*lease, *ttl_s};
}

Result<Campaigned> read_campaign(std::string_view answer) {
    const auto json = parse(answer);
    if (!json) return json.error();
    Campaigned campaign;
    campaign.is_won = has_succeeded(*json);
    if (!campaign.is_won) {
        auto record = record_in(*json, answer);
        if (!record) return record.error();
        campaign.record = std::move(*record);
        return campaign;
    }
    const auto header = json->value("header", Json::object());
    const auto revision = header.is_object() ? number<std::int64_t>(header, "revision") : 0;
    if (!revision || *revision <= 0) return strange("a transaction without a revision", answer);
    campaign.revision = *revision;
    const auto ended = found_key(json->value("responses", Json::array()), 2);
    const auto value = ended && !ended->empty() ? value_of(*ended) : std::string{};
    if (!ended || !value) return strange("the ends of earlier jobs are not legible", answer);
    campaign.ended = *value;
    return campaign;
}

Result<EndStored> read_recorded(std::string_view answer) {
    const auto json = parse(answer);
    if (!json) return json.error();
    return EndStored{has_succeeded(*json)};
}

Result<Kept> read_keep_alive(std::string_view answer) {
    // The answer is a stream with a single message.
    const auto json = parse(answer.substr(0, answer.find('\n')));
    if (!json) return json.error();
    const auto result = json->find("result");
    if (result == json->end() || !result->is_object())
        return strange("no answer about a lease", answer);
    const auto ttl_s = number<std::int64_t>(*result, "TTL");
    if (!ttl_s || *ttl_s < 0) return strange("no answer about a lease", answer);
    return Kept{*ttl_s};
}

}  // namespace

Keys keys_of(std::string_view prefix, std::string_view run_id) {
    auto stem = std::string{prefix};
    while (!stem.empty() && stem.back() == '/')
        stem.pop_back();
    stem += "/" + std::string{run_id};
    return {stem + "/leader", stem + "/epoch", stem + "/ended"};
}

Request write(const Keys& keys, const LeaseRequest& request) {
    return std::visit(
        Overloaded{
            [&](ReadRecord) { return read(keys); },
            [&](const GrantLease& asked) { return grant(asked.ttl_s); },
            [&](const Campaign& asked) { return campaign(keys, asked); },
            [&](const KeepLease& asked) { return keep_alive(asked.candidacy.lease); },
            [&](const Revoke& asked) { return revoke(asked.candidacy.lease); },
            [&](const RecordEnd& asked) { return record_end(keys, asked); },
            [&](const Erase& asked) { return erase(keys, asked.candidacy.revision); },
        },
        request);
}

Result<LeaseAnswer> read_answer(const LeaseRequest& request, std::string_view body) {
    const auto either = [](auto answer) -> Result<LeaseAnswer> {
        if (!answer) return answer.error();
        return LeaseAnswer{std::move(*answer)};
    };
    return std::visit(
        Overloaded{
            [&](ReadRecord) { return either(read_record(body)); },
            [&](const GrantLease&) { return either(read_grant(body)); },
            [&](const Campaign&) { return either(read_campaign(body)); },
            [&](const KeepLease&) { return either(read_keep_alive(body)); },
            [&](const RecordEnd&) { return either(read_recorded(body)); },
            [](const auto&) { return Result<LeaseAnswer>{Done{}}; },
        },
        request);
}

std::string describe_error(int status, std::string_view body) {
    if (auto message = message_in(body)) return std::move(*message);
    return "HTTP status " + std::to_string(status) + ", " +
           strange("no answer of etcd's gateway", body).context;
}

Request authenticate(const std::string& user, const std::string& password) {
    return {"/v3/auth/authenticate", Json{{"name", user}, {"password", password}}.dump()};
}

Result<std::string> read_token(std::string_view answer) {
    const auto json = Json::parse(answer, nullptr, false);
    if (json.is_object())
        if (const auto found = json.find("token"); found != json.end() && found->is_string())
            if (auto token = found->get<std::string>(); is_header_value(token)) return token;
    return Failure{system_code(EPROTO), "no token in etcd's answer to a user and a password"};
}

bool is_of_etcd(std::string_view answer) {
    return message_in(answer).value_or("").starts_with("etcdserver: ");
}

bool is_login_refused(std::string_view answer) {
    return message_in(answer).value_or("").find("authentication failed") != std::string::npos;
}

bool is_without_users(std::string_view answer) {
    return message_in(answer).value_or("").find("authentication is not enabled") !=
           std::string::npos;
}

bool is_token_refused(int status, std::string_view body) {
    if (status == http_ok) return false;
    const auto message = message_in(body).value_or("");
    for (const auto* words :
         {"invalid auth token", "revision of auth store is old", "user name is empty"})
        if (message.find(words) != std::string::npos) return true;
    return false;
}

std::string advice(std::string_view body, const std::string& user) {
    const auto message = message_in(body).value_or("");
    const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
    if (is_login_refused(body))
        return " (check etcd_user, which is '" + user + "', and its password)";
    if (user.empty() && says("user name is empty"))
        return " (it requires a user: give etcd_user and etcd_password_file in --rdzv-conf)";
    if (says("permission denied"))
        return " (user '" + user + "' needs a role that may read and write the keys below " +
               "etcd_prefix)";
    return {};
}

}  // namespace ddprun::witness::etcd
