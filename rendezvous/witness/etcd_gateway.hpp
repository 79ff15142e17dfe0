// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Builds the requests to etcd's JSON gateway (v3) that an election needs, and parses its answers.
/// Keys and values are in base64, 64-bit numbers are text.
namespace ddprun::witness::etcd {

struct Request {
    std::string path;
    std::string body;
    bool operator==(const Request&) const = default;
};

/// The keys of one job.
struct Keys {
    std::string leader;
    /// Kept after a leader has ended, so that epochs never decrease.
    std::string epoch;
    /// How jobs of this id have ended. Kept after the job has ended, for nodes that come back late.
    std::string ended;
};
Keys keys_of(std::string_view prefix, std::string_view run_id);

/// The value of the leader's key.
struct Leader {
    std::string endpoint;
    /// The nonce of the process that wrote it.
    std::string nonce;
    std::uint64_t epoch = 0;
    bool operator==(const Leader&) const = default;
};

struct Record {
    struct Held {
        Leader leader;
        std::int64_t lease = 0;
    };
    /// None: the key is free.
    std::optional<Held> held;
    /// The epoch of the last leader; 0: there was none.
    std::uint64_t epoch = 0;
    /// The revision of the epoch's key; 0: there is none.
    std::int64_t epoch_revision = 0;
};

struct Grant {
    std::int64_t lease = 0;
    std::int64_t ttl_s = 0;
};

struct Campaign {
    bool is_won = false;
    /// When won: the revision of the leader's key.
    std::int64_t revision = 0;
    /// When lost: the leader that has the key.
    Record record;
    /// When won: the value of the key `ended`, as earlier leaders left it; may be empty.
    std::string ended;
};

Request read(const Keys& keys);
Request grant(std::int64_t ttl_s);
/// Takes the leader's key if it is free and the epoch's key is unchanged since it was read.
Request campaign(
    const Keys& keys, const Leader& leader, std::int64_t epoch_revision, std::int64_t lease);
Request keep_alive(std::int64_t lease);
/// Revokes the lease; its key is removed with it.
Request revoke(std::int64_t lease);
/// Stores how a job has ended, for as long as `lease` lasts, if the leader's key still has this
/// revision.
Request record_end(
    const Keys& keys, const std::string& ended, std::int64_t revision, std::int64_t lease);
/// For a job that is over: removes both keys of its leadership if the leader's key still has this
/// revision.
Request erase(const Keys& keys, std::int64_t revision);

Result<Record> read_record(std::string_view answer);
Result<Grant> read_grant(std::string_view answer);
Result<Campaign> read_campaign(std::string_view answer);
/// False: another leader has the key, or none.
Result<bool> read_recorded(std::string_view answer);
/// The seconds that the lease has left; 0: the lease no longer exists.
Result<std::int64_t> read_keep_alive(std::string_view answer);

/// The text of an error answer, for a message.
std::string describe_error(int status, std::string_view body);

// ---- users --------------------------------------------------------------------------------------

/// Requests a token, which later requests send as `Authorization`. The texts are UTF-8.
Request authenticate(const std::string& user, const std::string& password);
/// Its error never quotes the answer.
Result<std::string> read_token(std::string_view answer);
/// Whether this is an error of etcd itself, and not of another program that answers in its place.
bool is_of_etcd(std::string_view answer);
/// The user or the password is wrong.
bool is_login_refused(std::string_view answer);
/// Whether this answer to `authenticate` shows that etcd's authentication is off: no token is
/// needed.
bool is_without_users(std::string_view answer);
/// The request's token has expired, is older than a change of the users, or was forgotten.
bool is_token_refused(int status, std::string_view body);
/// Advice for an error answer, as the end of a message; empty: none is known. `user` is empty when
/// none was given.
std::string advice(std::string_view body, const std::string& user);

}  // namespace ddprun::witness::etcd
