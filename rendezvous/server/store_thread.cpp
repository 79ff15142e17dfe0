// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_thread.hpp"

#include "rendezvous/base/signal_masked_thread.hpp"
#include "rendezvous/server/store_loop.hpp"

#include <boost/asio/post.hpp>

#include <unistd.h>

#include <future>
#include <memory>
#include <utility>

namespace ddprun::server {

StoreThread::StoreThread(wire::Accepted accepted, StoreServer::OnWait on_wait)
    : work_(boost::asio::make_work_guard(io_)),
      store_(io_, {}, accepted) {
    if (on_wait) store_.watch_waits(std::move(on_wait));
    thread_ = start_signal_masked_thread([this] { run_store_loop(io_); });
}

StoreThread::~StoreThread() {
    io_.stop();
    thread_.join();
}

void StoreThread::adopt(net::Tcp::socket socket, std::string first_bytes) {
    error_code ec;
    const auto protocol = socket.local_endpoint(ec).protocol();
    if (ec) return;
    // A socket belongs to one io_context, so only its descriptor is moved.
    const int descriptor = socket.release(ec);
    if (ec) return;
    net::Tcp::socket moved(io_);
    moved.assign(protocol, descriptor, ec);
    if (ec) {
        ::close(descriptor);
        return;
    }
    boost::asio::post(
        io_, [this, moved = std::move(moved), bytes = std::move(first_bytes)]() mutable {
            store_.adopt(std::move(moved), std::move(bytes));
        });
}

void StoreThread::drain(Duration timeout, std::function<void()> done) {
    // Only the handler keeps it alive: if the handler ends for lack of memory, the wait ends too.
    auto begun = std::make_shared<std::promise<void>>();
    const auto has_begun = begun->get_future();
    boost::asio::post(
        io_, [this, timeout, done = std::move(done), begun = std::move(begun)]() mutable {
            store_.drain(timeout, std::move(done));
            begun->set_value();
        });
    has_begun.wait();
}

void StoreThread::survey(std::function<void(StoreSurvey)> answer) {
    boost::asio::post(io_, [this, answer = std::move(answer)] { answer(store_.survey()); });
}

}  // namespace ddprun::server
