// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace ddprun::tunnel {

/// Violations of the protocol by the other end of a tunnel. Each of them ends the tunnel.
enum class Error {
    other_protocol = 1,
    unknown_kind,
    wrong_length,
    wrong_direction,
    wrong_stream,
    too_much_data,
    too_much_credit,
    after_end,
};

const boost::system::error_category& error_category();

inline error_code make_error_code(Error error) {
    return {static_cast<int>(error), error_category()};
}

}  // namespace ddprun::tunnel

template <>
struct boost::system::is_error_code_enum<ddprun::tunnel::Error> : std::true_type {};
