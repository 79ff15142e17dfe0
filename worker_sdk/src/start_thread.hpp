// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"
#include "rendezvous/base/signal_masked_thread.hpp"
#include "rendezvous/base/start_failure.hpp"

#include <string>
#include <system_error>
#include <utility>

namespace ddprun {

/// Starts a signal-masked thread, or throws an Error that names the limits which prevent it.
template <class Body>
std::thread start_thread(Body body) {
    try {
        return start_signal_masked_thread(std::move(body));
    } catch (const std::system_error& error) {
        throw Error(describe_start_failure(
            error.code(), std::string{"a thread could not be started: "} + error.what()));
    }
}

}  // namespace ddprun
