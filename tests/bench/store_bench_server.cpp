// SPDX-License-Identifier: Apache-2.0
// A store server and nothing else, for the store bench and for experiments: listens on the
// loopback, prints its port, serves until its standard input ends.
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/store_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <unistd.h>

#include <cstdio>

int main() {
    boost::asio::io_context io(1);
    auto acceptor = ddprun::net::listen(io, "127.0.0.1", 0);
    if (!acceptor) {
        std::fprintf(stderr, "%s\n", acceptor.error().describe().c_str());
        return 1;
    }
    std::printf("%d\n", acceptor->local_endpoint().port());
    std::fflush(stdout);

    ddprun::server::StoreServer server(io);
    server.serve(std::move(*acceptor));

    boost::asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
    char byte = 0;
    input.async_read_some(boost::asio::buffer(&byte, 1), [&](auto, auto) { io.stop(); });
    io.run();
}
