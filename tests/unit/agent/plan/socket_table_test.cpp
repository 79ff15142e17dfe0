// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/socket_table.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;

namespace {

constexpr std::uint16_t store_port = 0x4E21;

// In the byte order of a little-endian machine, which every test machine is.
const std::string table_4 =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
    "10 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0100007F:4E21 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 "
    "11 1 0000000000000000 20 4 0 10 -1\n"
    "   2: 0100007F:C001 0100007F:4E21 01 00000000:00000000 00:00000000 00000000     0        0 "
    "12 1 0000000000000000 20 4 0 10 -1\n"
    "   3: 0200000A:C002 0100000A:4E21 02 00000000:00000000 00:00000000 00000000     0        0 "
    "13 1 0000000000000000 20 4 0 10 -1\n"
    "   4: 0200000A:C003 0100000A:4E21 06 00000000:00000000 03:000010E4 00000000     0        0 "
    "0 3 0000000000000000\n"
    "   5: 0200000A:C004 0100000A:4E22 01 00000000:00000000 00:00000000 00000000     0        0 "
    "14 1 0000000000000000 20 4 0 10 -1\n";
const std::string table_6 =
    "  sl  local_address remote_address st ...\n"
    "   0: 0000000000000000FFFF00000200000A:C005 0000000000000000FFFF00000100000A:4E21 01 "
    "00000000:00000000 00:00000000 00000000  1000        0 15 1 0000000000000000 20 4 0 10 -1\n"
    "   1: 00000000000000000000000001000000:C006 00000000000000000000000001000000:4E21 01 "
    "00000000:00000000 00:00000000 00000000  1000        0 16 1 0000000000000000 20 4 0 10 -1\n";

}  // namespace

TEST_CASE("the clients' ends of established connections to a port are found") {
    SocketTable table;
    add_connections_to(store_port, table_4, table);
    CHECK(table == SocketTable{{12, "127.0.0.1:49153"}});
    add_connections_to(store_port, table_6, table);
    CHECK(
        table == SocketTable{{12, "127.0.0.1:49153"}, {15, "10.0.0.2:49157"}, {16, "[::1]:49158"}});
}

TEST_CASE("connections of any port are established, or being made") {
    CHECK(
        tcp_connections(table_4) == std::vector<TcpConnection>{
                                        {11, {"127.0.0.1", 49153}, true},
                                        {12, {"127.0.0.1", store_port}, true},
                                        {13, {"10.0.0.1", store_port}, false},
                                        {14, {"10.0.0.1", 0x4E22}, true}});
    CHECK(tcp_connections(table_6).at(0) == TcpConnection{15, {"10.0.0.1", store_port}, true});
    CHECK(tcp_connections("a b c 01").empty());
    CHECK(tcp_connections("").empty());
}

TEST_CASE("a table that makes no sense has no connections") {
    SocketTable table;
    for (const auto* text :
         {"",
          "1 2 3 01",
          "0: 0100007F:C001 0100007F 01 0 0 0 0 0 12",
          "0: 0100007F:C001 0100007F:4E21G 01 0 0 0 0 0 12",
          "0: 010007F:C001 0100007F:4E21 01 0 0 0 0 0 12",
          "0: ZZ00007F:C001 0100007F:4E21 01 0 0 0 0 0 12",
          "0: 0100007F:C001 0100007F:4E21 01 0 0 0 0 0 -12"})
        add_connections_to(store_port, text, table);
    CHECK(table.empty());
}

TEST_CASE("a link to a socket has its inode") {
    CHECK(socket_inode("socket:[1234]") == 1234);
    CHECK(socket_inode("pipe:[1234]") == 0);
    CHECK(socket_inode("socket:[]") == 0);
    CHECK(socket_inode("socket:[12") == 0);
    CHECK(socket_inode("") == 0);
}

TEST_CASE("only a worker of which every descriptor is known has no connection") {
    const SocketTable table{{12, "127.0.0.1:1"}, {15, "127.0.0.1:2"}, {16, "127.0.0.1:3"}};
    const std::vector<WorkerSockets> workers{
        {0, {1, 12, 15}, true}, {1, {16}, false}, {2, {1, 2}, true}, {3, {1}, false}};

    CHECK(
        store_clients(4, workers, table) ==
        control::StoreClients{
            4, {{0, "127.0.0.1:1"}, {0, "127.0.0.1:2"}, {1, "127.0.0.1:3"}}, {2}, {}});
}

TEST_CASE("clients behind a tunnel are named as the store names its streams") {
    control::StoreClients clients{0, {{0, "127.0.0.1:40001"}, {1, "127.0.0.1:40002"}}, {2}, {}};
    name_by_tunnel(clients, "10.0.0.2:51234");
    CHECK(
        clients.sockets == std::vector<control::StoreSocket>{
                               {0, "10.0.0.2:51234/40001"}, {1, "10.0.0.2:51234/40002"}});
    CHECK(clients.unconnected == std::vector{2});
}
