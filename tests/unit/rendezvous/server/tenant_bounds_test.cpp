// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/tenant_bounds.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::server;

TEST_CASE("a tenant has so many connections, and takes none of another tenant") {
    TenantConnections connections(2);
    CHECK(connections.add({1}, "blue").empty());
    CHECK(connections.add({2}, "blue").empty());
    CHECK(
        connections.add({3}, "blue") ==
        "this server has 2 connections of tenant 'blue' already, and keeps no more of one tenant");
    CHECK(connections.tenant_of({3}).empty());
    CHECK(connections.add({4}, "red").empty());
    CHECK(connections.tenant_of({4}) == "red");
    // It was not added, so its end makes no place.
    connections.remove({3});
    CHECK_FALSE(connections.add({5}, "blue").empty());
    connections.remove({1});
    connections.remove({1});
    CHECK(connections.add({6}, "blue").empty());
    CHECK_FALSE(connections.add({7}, "blue").empty());
}

TEST_CASE("a server without tenants has no bound of one") {
    TenantConnections connections(1);
    CHECK(connections.add({1}, {}).empty());
    CHECK(connections.add({2}, {}).empty());
}

TEST_CASE("the tenant that holds most loses its biggest holder") {
    CHECK(biggest_of_biggest({}) == std::nullopt);
    CHECK(biggest_of_biggest({{{1}, "blue", 0}}) == std::nullopt);
    // One big message of red, many small ones of blue.
    CHECK(
        biggest_of_biggest(
            {{{1}, "red", 90}, {{2}, "blue", 40}, {{3}, "blue", 60}, {{4}, "blue", 50}}) ==
        ConnectionId{3});
    CHECK(biggest_of_biggest({{{1}, "red", 90}, {{2}, "", 40}, {{3}, "", 60}}) == ConnectionId{3});
    CHECK(biggest_of_biggest({{{1}, "", 40}, {{2}, "", 60}}) == ConnectionId{2});
}

TEST_CASE("what one tenant may take up is what its documentation says") {
    CHECK(most_tenant_bytes / (1024 * 1024) == 15'568);
}
