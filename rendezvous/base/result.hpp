// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <boost/system/system_error.hpp>

#include <string>
#include <utility>

namespace ddprun {

using boost::system::error_code;

/// An error: the code is the kind of error, the context names the peer, path or rank. The context
/// is added once, where the peer, path or rank is known.
struct Failure {
    error_code code;
    std::string context;

    /// One line for a person: "connect to node1:29400: Connection refused".
    std::string describe() const {
        return context.empty() ? code.message() : context + ": " + code.message();
    }

    bool operator==(const Failure&) const = default;
};

[[noreturn]] inline void throw_exception_from_error(
    const Failure& failure, const boost::source_location&) {
    throw boost::system::system_error(failure.code, failure.context);
}

/// A value, or a failure. Taking the value of a failed result is a bug and throws.
///
/// Requires: every caller checks it. The compiler warns of a dropped result (clang also of one that
/// comes from a `co_await`).
template <class T = void>
class [[nodiscard]] Result : public boost::system::result<T, Failure> {
    using Base = boost::system::result<T, Failure>;

public:
    using Base::Base;
    Result(Failure failure) : Base(std::move(failure)) {}
    Result(error_code code, std::string context) : Base(Failure{code, std::move(context)}) {}
};

/// `errno`-style codes as `error_code`.
inline error_code system_code(int number) {
    return {number, boost::system::system_category()};
}

}  // namespace ddprun
