// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/etcd_gateway.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::witness;

namespace {

/// In the format of etcd 3.4 and 3.5.
std::string error(const std::string& words, int code) {
    return R"({"error":"etcdserver: )" + words + R"(","message":"etcdserver: )" + words +
           R"(","code":)" + std::to_string(code) + "}";
}

}  // namespace

TEST_CASE("a user and a password are sent as they are, and answered with a token") {
    CHECK(
        etcd::authenticate("j", "a \"b\"") ==
        etcd::Request{"/v3/auth/authenticate", R"({"name":"j","password":"a \"b\""})"});
    CHECK(*etcd::read_token(R"({"header":{"revision":"2"},"token":"abc.7"})") == "abc.7");
}

TEST_CASE("what is no token is refused and not quoted") {
    for (const std::string answer :
         {R"(no JSON)",
          R"({"header":{}})",
          R"({"token":7})",
          R"({"token":""})",
          R"({"token":"hidden\r\nHost: other"})",
          R"({"token":"hidden token"})"}) {
        CAPTURE(answer);
        const auto token = etcd::read_token(answer);
        REQUIRE_FALSE(token.has_value());
        CHECK(token.error().describe().find("hidden") == std::string::npos);
    }
}

TEST_CASE("only an answer about the token is a reason for another one") {
    CHECK(etcd::is_token_refused(401, error("invalid auth token", 16)));
    CHECK(etcd::is_token_refused(400, error("revision of auth store is old", 3)));
    CHECK(etcd::is_token_refused(400, error("user name is empty", 3)));
    CHECK_FALSE(etcd::is_token_refused(403, error("permission denied", 7)));
    CHECK_FALSE(etcd::is_token_refused(503, "not JSON"));
    CHECK_FALSE(etcd::is_token_refused(200, error("invalid auth token", 16)));
    CHECK(etcd::is_login_refused(error("etcdserver: authentication failed, invalid user ID", 3)));
    CHECK_FALSE(etcd::is_login_refused(error("etcdserver: no leader", 14)));
    CHECK(etcd::is_of_etcd(error("etcdserver: no leader", 14)));
    CHECK_FALSE(etcd::is_of_etcd("POST /v3/auth/authenticate {\"password\":\"planted\"}"));
    CHECK(etcd::is_without_users(error("authentication is not enabled", 9)));
    CHECK_FALSE(etcd::is_without_users(R"({"token":"authentication is not enabled"})"));
}

TEST_CASE("an answer that is known has advice") {
    CHECK(
        etcd::advice(error("authentication failed, invalid user ID or password", 3), "j") ==
        " (check etcd_user, which is 'j', and its password)");
    CHECK(etcd::advice(error("user name is empty", 3), "").starts_with(" (it requires a user"));
    CHECK(etcd::advice(error("permission denied", 7), "j").starts_with(" (user 'j' needs a role"));
    CHECK(etcd::advice(error("request timed out", 14), "j").empty());
    CHECK(etcd::advice("not JSON", "j").empty());
}
