// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/gloo/mesh.hpp"

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/gloo/rendezvous.hpp"

#include <gloo/barrier.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>

namespace ddprun::groups {

using std::chrono::milliseconds;

Mesh::Mesh(const DdprunOpen& settings) : sockets_before_(open_sockets()) {
    const gloo::transport::tcp::attr where(settings.address);
    context_ = std::make_shared<AbortableContext>(settings.rank, settings.world_size);
    // Gloo allows five times this for each connection.
    context_->setTimeout(milliseconds(std::max<std::int64_t>(settings.connect_timeout_ms, 1)));
    transport_ = context_->listen(gloo::transport::tcp::CreateDevice(where));
}

/// In place of Gloo's own: it waits for the next address with connections half made, so that its
/// time for a connection includes the wait for a third rank; and it cannot be ended.
void Mesh::connect(const DdprunStore& store) {
    const auto addresses = exchange_addresses(store);
    for (int peer = 0; peer < context_->size; ++peer)
        if (peer != context_->rank) connect_to(peer, addresses[static_cast<std::size_t>(peer)]);
    if (!end_connecting()) throw gloo::IoException("aborted");
    // A peer that leaves is a failed connection to a rank that is still connecting: no rank
    // continues before all are connected.
    gloo::BarrierOptions all_are_here(context_);
    all_are_here.setTimeout(5 * context_->getTimeout());
    gloo::barrier(all_are_here);
    sockets_ = close_on_exec_all_but(sockets_before_);
    is_connected_ = true;
}

Mesh::Addresses Mesh::exchange_addresses(const DdprunStore& store) {
    std::vector<char> own;
    for (int peer = 0; peer < context_->size; ++peer) {
        if (peer == context_->rank) continue;
        const auto address = transport_->getPair(peer)->address().bytes();
        own.insert(own.end(), address.begin(), address.end());
    }
    Rendezvous rendezvous(store);
    rendezvous.publish(context_->rank, own);
    Addresses addresses(size());
    for (int peer = 0; peer < context_->size; ++peer)
        if (peer != context_->rank)
            addresses[static_cast<std::size_t>(peer)] = rendezvous.addresses_of(peer);
    return addresses;
}

void Mesh::connect_to(int peer, const std::vector<char>& addresses_of_peer) {
    // A peer has no address for itself.
    const int place = context_->rank > peer ? context_->rank - 1 : context_->rank;
    const auto bytes = addresses_of_peer.size() / (size() - 1);
    const auto begin = addresses_of_peer.begin() + static_cast<std::ptrdiff_t>(bytes) * place;
    try {
        transport_->getPair(peer)->connect({begin, begin + static_cast<std::ptrdiff_t>(bytes)});
    } catch (const gloo::IoException& thrown) {
        throw ConnectFailed{peer, without_place(thrown.what())};
    }
    // A wait for a pair that is closed meanwhile ends without an error.
    if (aborted()) throw gloo::IoException("aborted");
}

/// False after an abort.
bool Mesh::end_connecting() {
    const std::lock_guard lock(abort_mutex_);
    is_connecting_ = false;
    return !aborted_;
}

void Mesh::abort() {
    bool is_connecting = false;
    {
        const std::lock_guard lock(abort_mutex_);
        is_connecting = is_connecting_;
        // Before this rank breaks the rest.
        if (!aborted_) aborted_ = is_connecting ? Lost{} : broken_connections();
    }
    if (is_connecting) return close_pairs();
    // Gloo does all of this when one wait times out, and has no other function for it.
    try {
        char nothing = 0;
        auto buffer = transport_->inner().createUnboundBuffer(&nothing, sizeof nothing);
        buffer->waitRecv(milliseconds(1));
    } catch (const std::exception&) {
    }
    transport_->wake_all();
}

void Mesh::close_pairs() {
    for (int peer = 0; peer < context_->size; ++peer)
        if (peer != context_->rank) transport_->getPair(peer)->close();
}

std::optional<Lost> Mesh::aborted() {
    const std::lock_guard lock(abort_mutex_);
    return aborted_;
}

Lost Mesh::broken_connections() const {
    Lost lost;
    std::string reason;
    for (int peer = 0; peer < context_->size; ++peer) {
        if (peer == context_->rank) continue;
        try {
            char nothing = 0;
            auto buffer = transport_->inner().createUnboundBuffer(&nothing, sizeof nothing);
            // Posted on a broken connection it throws; on a healthy one it is cancelled with the
            // buffer.
            buffer->recv(peer, 0, 0, sizeof nothing);
        } catch (const std::exception& thrown) {
            lost.ranks.push_back(peer);
            reason = thrown.what();
        }
    }
    if (!lost.ranks.empty())
        lost.text = "lost " + text_of(lost.ranks) + " (" + without_place(reason) + ")";
    return lost;
}

std::string without_place(const std::string& text) {
    const auto end = text.find("] ");
    const bool has_place = text.rfind('[', 0) == 0 && end != std::string::npos;
    auto reason = has_place ? text.substr(end + 2) : text;
    while (!reason.empty() && (reason.back() == '\n' || reason.back() == ' '))
        reason.pop_back();
    return reason;
}

}  // namespace ddprun::groups
