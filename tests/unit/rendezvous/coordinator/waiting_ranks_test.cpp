// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/waiting_ranks.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::StoreClients;
using control::StoreWait;

namespace {

StoreWait a_wait(std::vector<std::string> sockets) {
    const auto count = sockets.size();
    return {0, "default_pg/0", 0, std::chrono::seconds{120}, false, count, std::move(sockets)};
}

/// The text for the log: the waiting ranks, and the others.
std::string said(const StoreWait& wait, const std::vector<NodeRanks>& nodes) {
    const auto ranks = find_ranks(wait, nodes);
    return waiting_text(ranks) + " | " + missing_text(ranks);
}

const StoreClients a_waits{0, {{0, "10.0.0.1:1"}, {1, "10.0.0.1:2"}}, {}, {}};
const StoreClients b_lacks_one{0, {{0, "10.0.0.2:1"}}, {1}, {}};

}  // namespace

TEST_CASE("the rank that is not connected is named with its host") {
    CHECK(
        said(
            a_wait({"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"}),
            {{"host-a", 0, 2, &a_waits}, {"host-b", 2, 2, &b_lacks_one}}) ==
        "0-2 | rank 3 (host-b) is not connected");
}

TEST_CASE("the same port on two hosts belongs to two ranks") {
    CHECK(
        said(
            a_wait({"10.0.0.2:1"}), {{"host-a", 0, 2, &a_waits}, {"host-b", 2, 2, &b_lacks_one}}) ==
        "2 | rank 3 (host-b) is not connected; "
        "ranks 0-1 (host-a) are connected and do not wait for it");
}

TEST_CASE("a rank with several connections waits with any of them, and counts once") {
    const StoreClients clients{0, {{0, "h:1"}, {0, "h:2"}, {1, "h:3"}, {1, "h:4"}}, {}, {}};

    CHECK(
        said(a_wait({"h:2"}), {{"h", 0, 2, &clients}}) ==
        "0 | rank 1 (h) is connected and does not wait for it");
    CHECK(said(a_wait({"h:1", "h:2", "h:4"}), {{"h", 0, 2, &clients}}) == "0-1 | ");
}

TEST_CASE("nothing is said of a rank of which its node said nothing") {
    const StoreClients empty{0, {}, {}, {}};
    CHECK(
        said(
            a_wait({"10.0.0.1:1", "10.0.0.1:2"}),
            {{"host-a", 0, 2, &a_waits}, {"host-b", 2, 2, nullptr}, {"host-c", 4, 1, &empty}}) ==
        "0-1 | ranks 2-3 (host-b), 4 (host-c) are not known");
}

TEST_CASE("a client of no known rank may be any rank that is connected") {
    // The store sees another address: the node is behind address translation.
    CHECK(
        said(
            a_wait({"192.168.0.9:7", "10.0.0.1:1"}),
            {{"host-a", 0, 2, &a_waits}, {"host-b", 2, 2, &b_lacks_one}}) ==
        "0 and 1 other client | rank 3 (host-b) is not connected; "
        "ranks 1 (host-a), 2 (host-b) are connected");
    CHECK(
        said(a_wait({"x:1", "x:2"}), {{"h", 0, 1, nullptr}}) ==
        "2 clients | rank 0 (h) is not known");
    // More clients than a message names.
    auto wait = a_wait({"10.0.0.1:1"});
    wait.client_count = 300;
    CHECK(
        said(wait, {{"host-a", 0, 2, &a_waits}}) ==
        "0 and 299 other clients | rank 1 (host-a) is connected");
}

TEST_CASE("a rank that has ended is named as such, whatever is left of it") {
    const StoreClients clients{0, {{0, "h:1"}}, {}, {1, 2}};
    CHECK(said(a_wait({"h:1"}), {{"h", 0, 3, &clients}}) == "0 | ranks 1-2 (h) have ended");
}

TEST_CASE("long lists of ranks are shortened") {
    StoreClients clients;
    StoreWait wait = a_wait({});
    for (int rank = 0; rank < 100; rank += 2) {
        clients.sockets.push_back({rank, "h:" + std::to_string(rank)});
        wait.sockets.push_back("h:" + std::to_string(rank));
        clients.unconnected.push_back(rank + 1);
    }
    wait.client_count = wait.sockets.size();
    const auto ranks = find_ranks(wait, {{"h", 0, 100, &clients}});
    CHECK(waiting_text(ranks) == "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30 and 34 more");
    CHECK(
        missing_text(ranks) ==
        "ranks 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 and 34 more (h) are not connected");
}
