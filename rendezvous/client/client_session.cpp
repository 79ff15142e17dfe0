// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/client_session.hpp"

#include "rendezvous/wire/encoder.hpp"
#include "rendezvous/wire/error.hpp"

namespace ddprun::client {
namespace {

bool is_wait(const wire::Awaited& awaited) {
    return awaited.query == wire::Query::wait || awaited.query == wire::Query::barrier;
}

}  // namespace

ClientSession::ClientSession(Greeting greeting, std::uint32_t nonce) {
    wire::encode(wire::Validate{}, output_);
    if (greeting == Greeting::validate) return;
    pong_ = nonce;
    wire::encode(wire::Ping{nonce}, output_);
    awaited_.push_back({wire::Query::ping});
}

void ClientSession::send(const wire::Request& request) {
    wire::encode(request, output_);
    if (const auto awaited = wire::awaited_reply(request)) awaited_.push_back(*awaited);
}

void ClientSession::sent(std::size_t bytes) {
    sent_ += bytes;
    if (sent_ < output_.size()) return;
    output_.clear();
    sent_ = 0;
}

Result<std::optional<wire::Reply>> ClientSession::next() {
    if (awaited_.empty()) {
        if (!decoder_.unread().empty()) return Failure{wire::Error::unrequested_reply, {}};
        return std::optional<wire::Reply>{};
    }
    auto reply = decoder_.next(awaited_.front());
    if (!reply || !*reply) return reply;

    const bool is_cancel_of_wait =
        is_wait(awaited_.front()) && std::holds_alternative<wire::WaitCanceled>(**reply);
    awaited_.pop_front();
    if (is_cancel_of_wait) {
        if (awaited_.empty() || awaited_.front().query != wire::Query::cancel_wait)
            return Failure{wire::Error::unexpected_reply, "WAIT"};
        awaited_.pop_front();
    }
    if (!pong_) return reply;
    if (std::get<wire::Pong>(**reply).nonce != *pong_)
        return Failure{wire::Error::unexpected_reply, "PING"};
    pong_.reset();
    return next();
}

}  // namespace ddprun::client
