// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/other_server.hpp"

#include "rendezvous/control/codec.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::control;

TEST_CASE("a server of another protocol is recognised by its first bytes") {
    const std::string settings{"\0\0\x12\x04\0\0\0\0\0", 9};

    CHECK(other_server("HTTP/1.1 400 Bad Request\r\n") == "an HTTP server");
    CHECK(other_server("<!DOCTYPE HTML>") == "an HTTP server");
    CHECK(other_server(settings) == "an HTTP/2 server (gRPC, etcd)");
    CHECK(other_server("\x15\x03\x03") == "a TLS server");
    CHECK(other_server("SSH-2.0-OpenSSH_9.2p1") == "an SSH server");
    CHECK(other_server("-ERR unknown command") == "a Redis server");
}

TEST_CASE("our own first frame, and bytes that decide nothing, name no other server") {
    CHECK(other_server("").empty());
    CHECK(other_server("H").empty());
    CHECK(other_server("whatever").empty());
    CHECK(other_server(encode(ServerMessage{Hello{}})).empty());
}
