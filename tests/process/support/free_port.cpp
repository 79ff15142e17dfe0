// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/free_port.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <random>

namespace ddprun::test {

std::uint16_t free_port() {
    using Tcp = boost::asio::ip::tcp;
    // Outside the ranges from which the kernel and an agent choose a port.
    std::uniform_int_distribution<std::uint16_t> any(10'000, 19'999);
    std::random_device random;
    boost::asio::io_context io;
    for (;;) {
        const auto port = any(random);
        Tcp::acceptor acceptor(io, Tcp::v4());
        acceptor.set_option(Tcp::acceptor::reuse_address(true));
        boost::system::error_code taken;
        acceptor.bind({boost::asio::ip::address_v4::any(), port}, taken);
        if (!taken) acceptor.listen(1, taken);
        if (!taken) return port;
    }
}

}  // namespace ddprun::test
