// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/store_server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>
#include <thread>

namespace ddprun::server {

/// Runs the shared c10d store on a separate thread, so that a busy store does not delay a
/// heartbeat. Calls come from the server's thread.
class StoreThread {
public:
    /// `on_wait`, if any, is called on the store's thread (StoreServer::watch_waits).
    explicit StoreThread(wire::Accepted accepted, StoreServer::OnWait on_wait = {});
    /// Closes every connection and waits for the thread.
    ~StoreThread();
    StoreThread(const StoreThread&) = delete;
    StoreThread& operator=(const StoreThread&) = delete;

    /// Takes over a connection of another thread; `first_bytes` have already been read from it.
    void adopt(net::Tcp::socket socket, std::string first_bytes);
    /// Once this has returned, no request is handled; every client can read its queued replies and
    /// the end. `done` is called on the store's thread when all have closed or `timeout` is over.
    void drain(Duration timeout, std::function<void()> done);
    /// `answer` is called on the store's thread.
    void survey(std::function<void(StoreSurvey)> answer);

private:
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    StoreServer store_;
    std::thread thread_;
};

}  // namespace ddprun::server
