// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/rdzv_conf.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

RdzvConf read(std::string_view text) {
    const auto conf = parse_rdzv_conf(text);
    if (conf) return *conf;
    FAIL(conf.error().context);
    return {};
}

std::string refusal(std::string_view text) {
    const auto conf = parse_rdzv_conf(text);
    return conf ? "accepted" : conf.error().context;
}

}  // namespace

TEST_CASE("the keys that mean something are read, blanks and quotes around them dropped") {
    RdzvConf wanted;
    wanted.join_timeout = 60s;
    wanted.last_call_timeout = 500ms;
    wanted.keep_alive_interval = 2s;
    wanted.keep_alive_max_attempt = 4;
    wanted.is_host = true;
    wanted.rank = 1;
    const std::string text =
        "join_timeout=60, last_call_timeout = 0.5,keep_alive_interval=2,"
        "keep_alive_max_attempt=4,is_host=Yes,rank=1";

    CHECK(read(text) == wanted);
    CHECK(read("'" + text + "'") == wanted);
    CHECK(read("\"" + text + "\"") == wanted);
    CHECK(read("") == RdzvConf{});
}

TEST_CASE("of a key given twice the last counts") {
    CHECK(read("join_timeout=1,join_timeout=2").join_timeout == Duration{2s});
}

TEST_CASE("every word torch takes for true or false is understood") {
    for (const auto* word : {"1", "true", "t", "yes", "y", "TRUE"})
        CHECK(read("is_host=" + std::string{word}).is_host == true);
    for (const auto* word : {"0", "false", "f", "no", "n", "No"})
        CHECK(read("is_host=" + std::string{word}).is_host == false);
}

TEST_CASE("a key without effect is said, an unknown one is named with the nearest known") {
    CHECK(
        read("cas_backoff_max_seconds=2").warnings ==
        std::vector<std::string>{"cas_backoff_max_seconds has no effect here"});
    CHECK(read("cas_backoff_max_seconds=0").warnings.empty());
    CHECK(
        read("read_timeout=60,store_type=tcp").warnings ==
        std::vector<std::string>{"read_timeout has no effect here"});
    CHECK(
        read("join_timeuot=60").warnings ==
        std::vector<std::string>{"unknown key join_timeuot; did you mean join_timeout?"});
    CHECK(
        read("wibble=1").warnings ==
        std::vector<std::string>{
            "unknown key wibble; known are join_timeout, last_call_timeout, keep_alive_interval, "
            "keep_alive_max_attempt, is_host, rank, timeout, protocol, cacert, cert, key, "
            "etcd_prefix, etcd_user, etcd_password_file, service_account"});
}

TEST_CASE("access to etcd has the names of both of torch's back ends") {
    RdzvConf conf;
    conf.protocol = "https";
    conf.cacert = "/a";
    conf.cert = "/b";
    conf.key = "/c";
    CHECK(read("protocol=https,cacert=/a,cert=/b,key=/c") == conf);
    CHECK(read("protocol=https,ca_cert=/a,ssl_cert=/b,ssl_cert_key=/c") == conf);
    CHECK(read("etcd_user=u,etcd_password_file=/p").etcd_user == "u");
    CHECK(read("etcd_user=u,etcd_password_file=/p").etcd_password_file == "/p");
    CHECK(refusal("etcd_password=hidden").starts_with("etcd_password: every user"));
    CHECK(refusal("etcd_password=hidden").find("hidden") == std::string::npos);
}

TEST_CASE("a wrong value is named with what is accepted") {
    CHECK(refusal("join_timeout") == "'join_timeout': accepted is KEY=VALUE,KEY=VALUE");
    CHECK(refusal("=3") == "'=3': accepted is KEY=VALUE,KEY=VALUE");
    CHECK(refusal("is_host=1,,rank=2") == "'': accepted is KEY=VALUE,KEY=VALUE");
    CHECK(
        refusal("join_timeout=0") ==
        "'join_timeout=0': accepted are seconds, or a number with ms, s, m, h or d, above 0");
    CHECK(
        refusal("cas_backoff_max_seconds=-1") ==
        "'cas_backoff_max_seconds=-1': accepted are seconds, or a number with ms, s, m, h or d, "
        "from 0 up");
    CHECK(refusal("last_call_timeout=nan").starts_with("'last_call_timeout=nan'"));
    CHECK(
        refusal("keep_alive_max_attempt=0") ==
        "'keep_alive_max_attempt=0': accepted is a whole number from 1 up");
    CHECK(
        refusal("is_host=maybe") ==
        "'is_host=maybe': accepted are true and false, yes and no, 1 and 0");
    CHECK(refusal("store_type=file") == "'store_type=file': accepted is tcp");
}
