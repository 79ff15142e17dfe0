// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/lease_requests.hpp"

#include <string>
#include <string_view>

/// The requests of an election as etcd's JSON gateway (v3) has them: keys and values are in base64,
/// 64-bit numbers are text. Leader and epoch are two keys, of which the leader's goes with its
/// lease.
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

Request write(const Keys& keys, const LeaseRequest& request);
Result<LeaseAnswer> read_answer(const LeaseRequest& request, std::string_view body);

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
