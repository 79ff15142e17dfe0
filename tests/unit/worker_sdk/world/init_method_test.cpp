// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/init_method.hpp"

#include "ddprun/error.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using Kind = InitMethod::Kind;

namespace {

std::string complaint_about(const std::string& text) {
    try {
        parse_init_method(text);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("init method: nothing and env:// are the environment") {
    CHECK(parse_init_method("").kind == Kind::environment);
    CHECK(parse_init_method("env://").kind == Kind::environment);
}

TEST_CASE("init method: an address with both, one or no number") {
    const auto both = parse_init_method("tcp://10.0.0.1:29500?rank=3&world_size=4");
    CHECK(both.kind == Kind::tcp);
    CHECK(both.endpoint == Endpoint{"10.0.0.1", 29500});
    CHECK(both.rank == 3);
    CHECK(both.world_size == 4);

    const auto none = parse_init_method("tcp://[::1]:29500/");
    CHECK(none.endpoint == Endpoint{"::1", 29500});
    CHECK_FALSE(none.rank.has_value());

    CHECK(parse_init_method("tcp://a:1?world_size=2").world_size == 2);
}

TEST_CASE("init method: a path is taken as it is") {
    const auto method = parse_init_method("file:///shared/my run/x?rank=0&world_size=2");
    CHECK(method.kind == Kind::file);
    CHECK(method.path == "/shared/my run/x");
    CHECK(method.rank == 0);
}

TEST_CASE("init method: an error has the reason and what is accepted") {
    struct Row {
        const char* text;
        const char* why;
    };
    const Row rows[] = {
        {"mpi://", "unknown kind"},
        {"tcp:/a:1", "unknown kind"},
        {"tcp://", "a host and a port are needed"},
        {"tcp://a", "a host and a port are needed"},
        {"tcp://a:0", "a host and a port are needed"},
        {"tcp://:29500", "a host and a port are needed"},
        {"tcp://a:99999", "a host and a port are needed"},
        {"file://x/y", "three slashes"},
        {"file://", "three slashes"},
        {"tcp://a:1?size=2", "unknown setting \"size\""},
    };
    for (const auto& row : rows) {
        const auto complaint = complaint_about(row.text);
        CHECK_MESSAGE(complaint.find(row.why) != std::string::npos, complaint);
        CHECK(complaint.find("tcp://HOST:PORT?rank=R&world_size=W") != std::string::npos);
    }
    CHECK(complaint_about("tcp://a:1?rank=-1").find("rank=-1: expected a number") == 0);
    CHECK(complaint_about("tcp://a:1?rank=").find("rank=: expected a number") == 0);
    CHECK(
        complaint_about("file:///" + std::string(5000, 'x')).find("too long") != std::string::npos);
}
