// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

/// What the SDK throws. Every text is one or two lines for a person: what happened, and with which
/// rank, key or variable. Catch `Error` for all of them; nothing else leaves the SDK but
/// std::bad_alloc.
namespace ddprun {

class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A peer, or the store, is gone or unreachable. The group it was thrown from is of no further
/// use: let the exception end the process, the launcher starts the next round.
class PeerLost : public Error {
public:
    using Error::Error;
};

/// Nobody is known to be gone, but the answer did not come in time. For a group the same holds as
/// after `PeerLost`.
class Timeout : public Error {
public:
    using Error::Error;
};

/// The ranks disagree: about sizes, types, parameters, or the order of their calls.
class Mismatch : public Error {
public:
    using Error::Error;
};

/// The caller, or the environment, asked for something that makes no sense. Nothing was done.
class UsageError : public Error {
public:
    using Error::Error;
};

}  // namespace ddprun
