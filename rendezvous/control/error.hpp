// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/system/error_code.hpp>

#include <type_traits>

/// Errors in a control frame. Each of them ends the connection; the context of the `Failure` names
/// the field.
namespace ddprun::control {

enum class Error {
    frame_too_long = 1,
    not_json,
    nested_too_deeply,
    unknown_type,
    bad_field,
};

const boost::system::error_category& error_category();

inline boost::system::error_code make_error_code(Error error) {
    return {static_cast<int>(error), error_category()};
}

}  // namespace ddprun::control

template <>
struct boost::system::is_error_code_enum<ddprun::control::Error> : std::true_type {};
