// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/control/message.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace ddprun::agent {

/// Nodes that start know the job by the endpoint of the command line. A `ddprun` that is started
/// there would begin the job again, and these nodes would join it. So a leader that was elected
/// elsewhere notifies the server there, again and again, that the job is its own.
class EndpointClaim {
public:
    /// Connects to the endpoint.
    using Connect = std::function<std::unique_ptr<client::CoordinatorClient>(
        client::CoordinatorClient::Hooks hooks)>;
    /// What to send; none: this node does not lead.
    using Find = std::function<std::optional<control::Claim>()>;

    EndpointClaim(boost::asio::io_context& io, Connect connect, Find find);

    /// Sends the claim now and at each interval, until there is none.
    void start();

private:
    boost::asio::steady_timer again_;
    Connect connect_;
    Find find_;
    std::unique_ptr<client::CoordinatorClient> client_;
};

}  // namespace ddprun::agent
