// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/store_thread.hpp"

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/store_server.hpp"

#include <boost/asio/post.hpp>

#include <future>
#include <thread>

namespace ddprun::tests {

class StoreThread::Server {
public:
    Server() {
        auto acceptor = net::listen(io_, "127.0.0.1", 0);
        port_ = acceptor->local_endpoint().port();
        store_.serve(std::move(*acceptor));
        thread_ = std::thread([this] { io_.run(); });
    }
    ~Server() {
        boost::asio::post(io_, [this] {
            store_.stop();
            io_.stop();
        });
        thread_.join();
    }
    std::uint16_t port() const { return port_; }
    void pause(std::chrono::milliseconds length) {
        std::promise<void> begun;
        boost::asio::post(io_, [&begun, length] {
            begun.set_value();
            std::this_thread::sleep_for(length);
        });
        begun.get_future().wait();
    }

private:
    boost::asio::io_context io_;
    server::StoreServer store_{io_};
    std::uint16_t port_ = 0;
    std::thread thread_;
};

StoreThread::StoreThread() : server_(std::make_unique<Server>()) {}

StoreThread::~StoreThread() = default;

std::uint16_t StoreThread::port() const {
    return server_->port();
}

void StoreThread::pause(std::chrono::milliseconds length) {
    server_->pause(length);
}

}  // namespace ddprun::tests
