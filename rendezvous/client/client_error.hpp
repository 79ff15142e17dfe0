// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace ddprun::client {

/// The errors of a store client, other than the system's and a wait that timed out (ETIMEDOUT).
enum class Error {
    name_not_resolved = 1,
    /// The server closed the connection: the server has ended, or it refused a request in the only
    /// way that the protocol has.
    server_closed,
    /// Connected, but no reply came in time. The connection is closed.
    no_answer,
    /// The peer uses another protocol.
    not_a_store,
};

const boost::system::error_category& error_category();

inline error_code make_error_code(Error error) {
    return {static_cast<int>(error), error_category()};
}

}  // namespace ddprun::client

template <>
struct boost::system::is_error_code_enum<ddprun::client::Error> : std::true_type {};
