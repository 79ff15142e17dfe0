// SPDX-License-Identifier: Apache-2.0
// A store for nodes with a secret, and a second node, for the security bench: listens on the
// loopback, prints a port, serves until its standard input ends.
//
//   members_store_server here      the port of the workers of the node that has the store
//   members_store_server tunnel    that of the workers of the other node
#include "agent/runner/round_stores.hpp"

#include <boost/asio/io_context.hpp>

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string_view>

namespace {

using namespace ddprun;
using agent::RoundStores;

RoundStores::Members members() {
    return {{"bench", {}, {tls::Secret{std::string(43, 'A')}}}};
}

}  // namespace

int main(int count, char** words) {
    if (count != 2) return 2;
    boost::asio::io_context io;
    RoundStores first(io, "127.0.0.1", {}, wire::Accepted::current, {}, members());
    RoundStores other(io, "127.0.0.1", {}, wire::Accepted::current, {}, members());
    std::optional<std::uint16_t> store;
    first.open([&](const Result<std::uint16_t>& opened) { store = opened.value(); });
    while (!store) {
        io.restart();
        io.run_for(std::chrono::milliseconds{1});
    }
    const Endpoint at{"127.0.0.1", *store};
    const auto here = first.enter({"bench", 0, at, true}, [](const auto&) {});
    const auto there = other.enter({"bench", 0, at, false}, [](const auto&) {});
    std::printf("%d\n", std::string_view{words[1]} == "here" ? here.value() : there.value());
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}
