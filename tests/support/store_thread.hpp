// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/store_server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace ddprun::test {

/// A store server on a thread of its own, on a free port of the loopback.
class StoreThread {
public:
    explicit StoreThread(
        server::StoreBounds bounds = {}, wire::Accepted accepted = wire::Accepted::current) {
        auto acceptor = net::listen(io_, "127.0.0.1", 0).value();
        port_ = acceptor.local_endpoint().port();
        server_ = std::make_unique<server::StoreServer>(io_, bounds, accepted);
        server_->serve(std::move(acceptor));
        thread_ = std::thread([this] { io_.run(); });
    }

    ~StoreThread() {
        on_thread([this] { server_.reset(); });
        io_.stop();
        thread_.join();
    }

    std::uint16_t port() const { return port_; }
    Endpoint endpoint() const { return {"127.0.0.1", port_}; }

    /// Runs the function on the server's thread and waits for it.
    void on_thread(const std::function<void()>& function) {
        std::promise<void> done;
        boost::asio::post(io_, [&] {
            function();
            done.set_value();
        });
        done.get_future().wait();
    }

    server::StoreServer::Counters counters() {
        server::StoreServer::Counters counters;
        on_thread([&] { counters = server_->counters(); });
        return counters;
    }

    /// Waits until the counters are as wanted; false if they are not after a generous time.
    bool becomes(const std::function<bool(const server::StoreServer::Counters&)>& is_wanted) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
        while (!is_wanted(counters())) {
            if (std::chrono::steady_clock::now() > until) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        return true;
    }

    server::StoreServer& server() { return *server_; }
    boost::asio::io_context& io() { return io_; }

private:
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        io_.get_executor()};
    std::unique_ptr<server::StoreServer> server_;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

}  // namespace ddprun::test
