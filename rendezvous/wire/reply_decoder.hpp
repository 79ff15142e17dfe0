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

/// What must be known of a request to read its reply: a reply does not say what it is.
struct Awaited {
    Query query = Query::ping;
    /// Of MULTI_GET: how many values.
    std::size_t value_count = 0;

    bool operator==(const Awaited&) const = default;
};

/// What the server will answer to this request; nothing for the requests without a reply.
std::optional<Awaited> awaited_reply(const Request& request);

/// Turns what a server sends into replies: the client's side of the wire. As incremental and as
/// strict as Decoder; lengths beyond the limits mean that this is no store at all.
class ReplyDecoder {
public:
    void append(std::string_view bytes) { input_.append(bytes); }

    /// The next reply, read as an answer to `awaited`, or nothing yet, or an error. Requires: the
    /// same `awaited` again after "nothing yet". A WAIT or BARRIER may be answered by
    /// `WaitCanceled` too: the answer to the CANCEL_WAIT sent after it.
    Result<std::optional<Reply>> next(const Awaited& awaited);

    std::string_view unread() const { return input_.unread(); }

private:
    /// A reply of many strings, taken out of the input as they become complete.
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
