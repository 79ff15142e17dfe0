// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/topology_file.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::launcher;

namespace {

std::string place(const char* file, const std::string& host) {
    return place_in_topology(file, {host}).value_or("not named");
}

constexpr const char* of_slurm = R"(# two rows of two racks
SwitchName=rack1 Nodes=n[001-008,010]
switchname=rack2 nodes=n[011-020],login LinkSpeed=100
SwitchName=row1 Switches=rack[1-2]
SwitchName=core Switches=row1 # and more
)";

}  // namespace

TEST_CASE("a list of hosts names these, with the digits that their numbers have") {
    CHECK(is_in_host_list("n1", "n1"));
    CHECK(is_in_host_list("n[001-128,130],gpu-a[7-9]", "n008"));
    CHECK(is_in_host_list("n[001-128,130],gpu-a[7-9]", "n130"));
    CHECK(is_in_host_list("n[001-128,130],gpu-a[7-9]", "gpu-a9"));
    CHECK(is_in_host_list("n[8-11]", "n10"));
    CHECK(is_in_host_list("rack[2-3]n[09-10]x,y", "rack3n09x"));
    CHECK(is_in_host_list("n[1-2][0-9]", "n15"));
    for (const auto* other : {"n129", "n8", "n0008", "n", "n008x", "gpu-a10", "", "x"})
        CHECK_FALSE(is_in_host_list("n[001-128,130],gpu-a[7-9]", other));
    for (const auto* wrong : {"", "n[", "n[]", "n[a-b]", "n[5-3]", "n[1-]", ","})
        CHECK_FALSE(is_in_host_list(wrong, "n4"));
}

TEST_CASE("Slurm's topology.conf gives the switch and those above it") {
    CHECK(place(of_slurm, "n008") == "core/row1/rack1");
    CHECK(place(of_slurm, "login") == "core/row1/rack2");
    CHECK(place(of_slurm, "n009") == "not named");
    CHECK(place("BlockName=b1 Nodes=n[1-4]", "n3") == "b1");
    CHECK(place("SwitchName=a Switches=a Nodes=n1", "n1") == "a/a/a/a/a/a/a/a");
}

TEST_CASE("a table of two columns gives a host's place, as Hadoop's does") {
    constexpr const char* table = "# racks\nn1 /row1/rack7\nn[2-3]\track8/\r\n\nn4 rack9 more\n";
    CHECK(place(table, "n1") == "row1/rack7");
    CHECK(place(table, "n3") == "rack8");
    CHECK(place(table, "n4") == "not named");
    CHECK(place("", "n1") == "not named");
    CHECK(place_in_topology(table, {"n9.example.com", "n9", "n2"}) == "rack8");
}
