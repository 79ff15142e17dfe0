// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/rdzv_conf.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/nearest.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace ddprun::launcher {
namespace {

constexpr std::array<std::string_view, 15> meant{
    "join_timeout",
    "last_call_timeout",
    "keep_alive_interval",
    "keep_alive_max_attempt",
    "is_host",
    "rank",
    "timeout",
    "protocol",
    "cacert",
    "cert",
    "key",
    "etcd_prefix",
    "etcd_user",
    "etcd_password_file",
    "service_account"};

/// Keys of torch without effect here: there is no rendezvous blob to write and no torch back end.
constexpr std::array<std::string_view, 4> without_effect{
    "close_timeout", "heartbeat_timeout", "heartbeat", "read_timeout"};

Failure bad_conf(std::string_view given, const std::string& accepted) {
    return {system_code(EINVAL), "'" + std::string{given} + "': " + accepted};
}

std::optional<bool> parse_bool(std::string_view text) {
    std::string lower{text};
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char letter) {
        return static_cast<char>(std::tolower(letter));
    });
    for (const auto* word : {"1", "true", "t", "yes", "y"})
        if (lower == word) return true;
    for (const auto* word : {"0", "false", "f", "no", "n"})
        if (lower == word) return false;
    return std::nullopt;
}

std::string_view without_quotes(std::string_view text) {
    text = trimmed(text);
    while (text.size() >= 2 && text.front() == text.back() &&
           (text.front() == '"' || text.front() == '\''))
        text = text.substr(1, text.size() - 2);
    return text;
}

using Pairs = std::map<std::string_view, std::string_view>;

Result<Pairs> read_pairs(std::string_view text) {
    Pairs pairs;
    text = without_quotes(text);
    while (!text.empty()) {
        const auto comma = text.find(',');
        const auto item = text.substr(0, comma);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
        const auto equals = item.find('=');
        const auto key = trimmed(item.substr(0, equals));
        const auto value = equals == std::string_view::npos ? std::string_view{}
                                                            : trimmed(item.substr(equals + 1));
        if (key.empty() || value.empty()) return bad_conf(item, "accepted is KEY=VALUE,KEY=VALUE");
        pairs[key] = value;
    }
    return pairs;
}

/// Each reader takes its key out of `pairs`; the keys left at the end are unknown.
class Reader {
public:
    explicit Reader(Pairs pairs) : pairs_(std::move(pairs)) {}

    std::optional<Duration> seconds(std::string_view key, bool may_be_zero = false) {
        const auto value = take(key);
        if (!value) return std::nullopt;
        const auto length = parse_duration(*value);
        if (length && (may_be_zero || *length > Duration::zero())) return length;
        return refuse<Duration>(
            key,
            *value,
            "accepted are " + std::string{duration_forms} +
                (may_be_zero ? ", from 0 up" : ", above 0"));
    }

    std::optional<int> whole(std::string_view key, int least) {
        const auto value = take(key);
        if (!value) return std::nullopt;
        const auto number = parse_int(*value);
        if (number && *number >= least) return number;
        return refuse<int>(
            key, *value, "accepted is a whole number from " + std::to_string(least) + " up");
    }

    std::optional<bool> truth(std::string_view key) {
        const auto value = take(key);
        if (!value) return std::nullopt;
        if (const auto truth = parse_bool(*value)) return truth;
        return refuse<bool>(key, *value, "accepted are true and false, yes and no, 1 and 0");
    }

    std::optional<std::string_view> take(std::string_view key) {
        const auto found = pairs_.find(key);
        if (found == pairs_.end()) return std::nullopt;
        const auto value = found->second;
        pairs_.erase(found);
        return value;
    }

    /// The value under any of the names that torch's two back ends for etcd use for the same
    /// setting.
    std::optional<std::string> text(std::string_view key, std::string_view other_key = {}) {
        const auto other = take(other_key);
        const auto value = take(key);
        if (value) return std::string{*value};
        return other ? std::optional{std::string{*other}} : std::nullopt;
    }

    template <class T>
    std::optional<T> refuse(
        std::string_view key, std::string_view value, const std::string& accepted) {
        if (!failure_) failure_ = bad_conf(std::string{key} + "=" + std::string{value}, accepted);
        return std::nullopt;
    }

    const Pairs& left() const { return pairs_; }
    const std::optional<Failure>& failure() const { return failure_; }

private:
    Pairs pairs_;
    std::optional<Failure> failure_;
};

}  // namespace

Result<RdzvConf> parse_rdzv_conf(std::string_view text) {
    const auto pairs = read_pairs(text);
    if (!pairs) return pairs.error();
    Reader reader{*pairs};

    RdzvConf conf;
    conf.join_timeout = reader.seconds("join_timeout");
    conf.last_call_timeout = reader.seconds("last_call_timeout");
    conf.keep_alive_interval = reader.seconds("keep_alive_interval");
    conf.keep_alive_max_attempt = reader.whole("keep_alive_max_attempt", 1);
    conf.is_host = reader.truth("is_host");
    conf.rank = reader.whole("rank", 0);
    conf.timeout = reader.seconds("timeout");
    conf.protocol = reader.text("protocol");
    conf.cacert = reader.text("cacert", "ca_cert");
    conf.cert = reader.text("cert", "ssl_cert");
    conf.key = reader.text("key", "ssl_cert_key");
    conf.etcd_prefix = reader.text("etcd_prefix");
    conf.etcd_user = reader.text("etcd_user");
    conf.etcd_password_file = reader.text("etcd_password_file");
    conf.service_account = reader.text("service_account");
    // The error does not contain the value.
    if (reader.take("etcd_password"))
        return Failure{
            system_code(EINVAL),
            "etcd_password: every user of the machine can read a command line; accepted are "
            "etcd_password_file=FILE and the variable DDPRUN_ETCD_PASSWORD"};
    for (const auto key : without_effect)
        if (reader.seconds(key)) conf.warnings.push_back(std::string{key} + " has no effect here");
    // 0 is torch's default.
    const auto backoff = reader.seconds("cas_backoff_max_seconds", true);
    if (backoff && *backoff > Duration::zero())
        conf.warnings.emplace_back("cas_backoff_max_seconds has no effect here");
    if (const auto type = reader.take("store_type"); type && *type != "tcp")
        reader.refuse<int>("store_type", *type, "accepted is tcp");
    if (reader.failure()) return *reader.failure();

    for (const auto& [key, value] : reader.left()) {
        auto warning = "unknown key " + std::string{key};
        if (const auto close = nearest(key, meant))
            warning += "; did you mean " + std::string{*close} + "?";
        else
            warning += "; known are " + short_list(meant, {meant.size()});
        conf.warnings.push_back(warning);
    }
    return conf;
}

}  // namespace ddprun::launcher
