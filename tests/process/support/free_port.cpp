// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/free_port.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace ddprun::test {

std::uint16_t free_port() {
    using Tcp = boost::asio::ip::tcp;
    boost::asio::io_context io;
    const Tcp::acceptor acceptor(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    return acceptor.local_endpoint().port();
}

}  // namespace ddprun::test
