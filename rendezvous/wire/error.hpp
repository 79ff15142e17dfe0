// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace ddprun::wire {

/// Errors in received bytes. Each of them ends the connection, since the protocol has no error
/// reply.
enum class Error {
    // Errors in the first bytes of a connection.
    older_client = 1,
    big_endian_client,
    wrong_magic,
    not_a_store_client,
    // Errors in requests.
    repeated_validate,
    unknown_query,
    key_too_long,
    value_too_long,
    too_many_keys,
    request_too_long,
    // Errors in replies.
    unexpected_reply,
    unrequested_reply,
    reply_too_long,
};

const boost::system::error_category& error_category();

inline error_code make_error_code(Error error) {
    return {static_cast<int>(error), error_category()};
}

}  // namespace ddprun::wire

template <>
struct boost::system::is_error_code_enum<ddprun::wire::Error> : std::true_type {};
