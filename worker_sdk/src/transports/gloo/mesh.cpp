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

Mesh::Mesh(const DdprunOpen& settings) {
    const auto sockets_before = open_sockets();
    const gloo::transport::tcp::attr where(settings.address);
    auto device = gloo::transport::tcp::CreateDevice(where);
    context_ = std::make_shared<AbortableContext>(settings.rank, settings.world_size);
    // Gloo allows five times this for each connection.
    context_->setTimeout(milliseconds(std::max<std::int64_t>(settings.connect_timeout_ms, 1)));
    Rendezvous store(settings.store);
    context_->connectFullMesh(store, device);
    // A peer that leaves is a failed connection to a rank that is still connecting: no rank
    // continues before all are connected.
    gloo::BarrierOptions all_are_here(context_);
    all_are_here.setTimeout(5 * context_->getTimeout());
    gloo::barrier(all_are_here);
    transport_ = context_->make_abortable();
    sockets_ = close_on_exec_all_but(sockets_before);
}

/// Gloo does all of this when one wait times out, and has no other function for it.
void Mesh::abort() {
    {
        const std::lock_guard lock(abort_mutex_);
        // Before this rank breaks the rest.
        if (!aborted_) aborted_ = broken_connections();
    }
    try {
        char nothing = 0;
        auto buffer = transport_->inner().createUnboundBuffer(&nothing, sizeof nothing);
        buffer->waitRecv(milliseconds(1));
    } catch (const std::exception&) {
    }
    transport_->wake_all();
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
