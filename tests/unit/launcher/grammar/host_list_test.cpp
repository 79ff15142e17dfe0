// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/host_list.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

using Hosts = std::vector<Host>;

std::string refusal_of_list(const std::string& text) {
    const auto hosts = parse_host_list(text);
    return hosts ? "accepted" : hosts.error().context;
}

std::string refusal_of_file(const std::string& text) {
    const auto hosts = parse_host_file(text);
    return hosts ? "accepted" : hosts.error().context;
}

}  // namespace

TEST_CASE("a list of hosts names machines as ssh takes them, and workers") {
    CHECK(*parse_host_list("a,b:4") == Hosts{{"a", {}}, {"b", 4}});
    CHECK(*parse_host_list(" root@a.b-c_1 , b ") == Hosts{{"root@a.b-c_1", {}}, {"b", {}}});
    CHECK(*parse_host_list("[fe80::1]:2,fe80::2") == Hosts{{"fe80::1", 2}, {"fe80::2", {}}});
    CHECK(*parse_host_list("10.0.0.1:8") == Hosts{{"10.0.0.1", 8}});
    CHECK(
        *parse_host_list("me@[fe80::1%eth0]:2,1:2:3:4:5:6:7:8") ==
        Hosts{{"me@fe80::1%eth0", 2}, {"1:2:3:4:5:6:7:8", {}}});
    CHECK(*parse_host_list("[a]:2,[::1]") == Hosts{{"a", 2}, {"::1", {}}});
}

TEST_CASE("a host that is named again is one host with the workers of both") {
    CHECK(*parse_host_list("a:2,b,a:3") == Hosts{{"a", 5}, {"b", {}}});
    CHECK(*parse_host_list("a,a,b") == Hosts{{"a", 2}, {"b", {}}});
}

TEST_CASE("what is no list of hosts is refused with what is accepted") {
    CHECK(refusal_of_list("") == "'': accepted are NAME and NAME:WORKERS");
    CHECK(refusal_of_list("a,,b") == "'': accepted are NAME and NAME:WORKERS");
    CHECK(
        refusal_of_list("-oProxyCommand=x") ==
        "'-oProxyCommand=x': accepted are NAME and NAME:WORKERS");
    CHECK(refusal_of_list("a b") == "'a b': accepted are NAME and NAME:WORKERS");
    for (const std::string text : {"a:2:3", "[a", "a]", "a[b]", "[a]b:2", "[[a]]", "[]:1"}) {
        CAPTURE(text);
        CHECK(refusal_of_list(text) == "'" + text + "': accepted are NAME and NAME:WORKERS");
    }
    CHECK(refusal_of_list("a:0") == "'a:0': accepted are 1 to 4096 workers");
    CHECK(refusal_of_list("a:many") == "'a:many': accepted are 1 to 4096 workers");
    CHECK(refusal_of_list("a:4000,a:4000") == "'a': accepted are 1 to 4096 workers");
}

TEST_CASE("files of Open MPI, MPICH, PBS and LSF are read by one rule") {
    CHECK(
        *parse_host_file("# nodes\na slots=4 max_slots=8\n\nb:2 # two\nc\n") ==
        Hosts{{"a", 4}, {"b", 2}, {"c", {}}});
    // $PBS_NODEFILE and $LSB_DJOB_HOSTFILE: a line for each slot.
    CHECK(*parse_host_file("n1\nn1\nn2\nn2\nn1\n") == Hosts{{"n1", 3}, {"n2", 2}});
    CHECK(*parse_host_file("n1\r\nn2\r\n") == Hosts{{"n1", {}}, {"n2", {}}});
}

TEST_CASE("a long file is read in one pass, and its numbers stay in their range") {
    std::string text;
    constexpr int count = 600'000;
    for (int i = 0; i < count; ++i)
        text += "a:4096\n";
    CHECK(refusal_of_file(text) == "'a': accepted are 1 to 4096 workers");
}

TEST_CASE("a mistake in a file of hosts is named with its line") {
    CHECK(refusal_of_file("# nothing\n") == "it names no host");
    CHECK(
        refusal_of_file("a\nb cpus=4\n") ==
        "line 2: 'cpus=4': accepted after a name is slots=WORKERS");
    CHECK(refusal_of_file("a slots=x\n") == "line 1: 'slots=x': accepted are 1 to 4096 workers");
    CHECK(refusal_of_file("a\n-b\n") == "line 2: '-b': accepted are NAME and NAME:WORKERS");
}
