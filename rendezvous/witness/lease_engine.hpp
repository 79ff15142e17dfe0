// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/engine_access.hpp"
#include "rendezvous/witness/lease_requests.hpp"

#include <functional>
#include <string>

namespace ddprun::witness {

/// What keeps the record of an election: etcd or a Kubernetes Lease. Used on the thread of its
/// `io_context`.
class LeaseEngine {
public:
    using OnAnswer = std::function<void(Result<LeaseAnswer> answer)>;

    virtual ~LeaseEngine() = default;
    LeaseEngine() = default;
    LeaseEngine(const LeaseEngine&) = delete;
    LeaseEngine& operator=(const LeaseEngine&) = delete;

    /// The callback is never called from inside `ask`, or after the engine is destroyed.
    virtual void ask(LeaseRequest request, OnAnswer on_answer) = 0;
    /// For all later requests: the files with certificates, password or token have changed.
    virtual void use(EngineAccess access) = 0;
    /// This machine's address on the connection to the server that answered last; empty: none has
    /// answered yet.
    virtual const std::string& local_address() const = 0;
};

}  // namespace ddprun::witness
