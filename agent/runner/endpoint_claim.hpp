// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/control/message.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun::agent {

/// Nodes that start know the job by the endpoints of the command line. A `ddprun` that is started
/// at one of them would begin the job again, or know of no job. So the leader notifies the servers
/// there, again and again, that the job is its own.
class EndpointClaim {
public:
    using Connect = std::function<std::unique_ptr<client::CoordinatorClient>(
        Endpoint place, client::CoordinatorClient::Hooks hooks)>;
    struct Leader {
        /// None: it has nothing to claim now.
        std::optional<control::Claim> claim;
    };
    /// None: this node does not lead.
    using Find = std::function<std::optional<Leader>()>;

    EndpointClaim(boost::asio::io_context& io, Connect connect, Find find);

    /// Sends the claim now and at each interval to the servers there, until this node does not
    /// lead.
    void start(std::vector<Endpoint> places);

private:
    void send();
    client::CoordinatorClient::Hooks hooks_for(std::size_t index);

    boost::asio::steady_timer again_;
    Connect connect_;
    Find find_;
    std::vector<Endpoint> places_;
    /// One for each place.
    std::vector<std::unique_ptr<client::CoordinatorClient>> clients_;
};

}  // namespace ddprun::agent
