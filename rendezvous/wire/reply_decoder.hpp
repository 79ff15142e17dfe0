// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/wire/input.hpp"
#include "rendezvous/wire/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun::wire {

/// The facts about a request that are needed to decode its reply, since a reply does not contain
/// its type.
struct Awaited {
    Query query = Query::ping;
    /// For MULTI_GET: the number of values.
    std::size_t value_count = 0;

    bool operator==(const Awaited&) const = default;
};

/// The reply that the server will send to this request; none for requests without a reply.
std::optional<Awaited> awaited_reply(const Request& request);

/// Turns a server's bytes into replies: the client's side of the wire. Incremental and strict like
/// Decoder; a length beyond the limits means that the peer is no store.
class ReplyDecoder {
public:
    void append(std::string_view bytes) { input_.append(bytes); }

    /// The next reply, read as an answer to `awaited`, or nothing yet, or an error. Requires: the
    /// same `awaited` again after "nothing yet". A WAIT or BARRIER may be answered by
    /// `WaitCanceled` too: the answer to the CANCEL_WAIT sent after it.
    Result<std::optional<Reply>> next(const Awaited& awaited);

    std::string_view unread() const { return input_.unread(); }

private:
    /// A reply with many strings. Each complete string is taken out of the input at once.
    struct List {
        std::uint64_t missing;
        std::vector<std::string> strings = {};
    };

    Result<std::optional<Reply>> next_list(const Awaited& awaited);

    Input input_;
    std::size_t needed_ = 1;
    std::optional<List> list_;
};

}  // namespace ddprun::wire
