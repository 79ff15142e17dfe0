// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/wire/input.hpp"
#include "rendezvous/wire/message.hpp"
#include "rendezvous/wire/query.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::wire {

class Cursor;

/// Turns what one client sends into requests: the server's side of the wire.
///
/// Bytes may arrive in any pieces, and several requests in one piece. The time is linear in the
/// number of bytes, and a request is returned only once it is complete. The first request of a
/// connection must be VALIDATE, unless clients of PyTorch 2.1 are accepted: any other is refused
/// with an error that depends on its first bytes (an older PyTorch, a big-endian host, no store
/// client). The limits are those of base/limits.hpp; a length is checked before its bytes have
/// arrived.
class Decoder {
public:
    explicit Decoder(Accepted accepted = Accepted::current) : accepted_(accepted) {}

    void append(std::string_view bytes) { input_.append(bytes); }
    /// As `append`, but without a copy of the bytes that are decoded before `own` is called, which
    /// copies the rest. Requires: `bytes` stay valid until then.
    void borrow(std::string_view bytes) { input_.borrow(bytes); }
    void own() { input_.own(); }

    /// Writes the next request to `into` and returns true; false: none is complete yet. After an
    /// error the connection must end. Writes in place, since moving a small request costs as much
    /// as decoding it. Unless true is returned, `into` has no meaningful value.
    Result<bool> next(Request& into);

    /// Whether a valid VALIDATE was received, or an accepted beginning of PyTorch 2.1.
    bool has_greeted() const { return has_greeted_; }
    /// The received bytes that belong to no complete request: for the log line about a refused
    /// peer.
    std::string_view unread() const { return input_.unread(); }

    /// The memory that an incomplete request occupies.
    std::size_t held_bytes() const;

private:
    /// A request with many keys. Each complete key is taken out of the input at once, so that no
    /// byte is parsed twice.
    struct List {
        Query query;
        std::uint64_t missing;
        std::size_t bytes = 0;
        std::vector<std::string> keys = {};
        std::vector<KeyValue> pairs = {};
    };

    Result<bool> greet(Request& into);
    Result<bool> greet_legacy(Request& into);
    std::optional<Query> query_of(std::uint8_t opcode) const;
    void begin_list(Query query, Cursor& cursor);
    Result<bool> go_on_with_list(Request& into);
    /// Checks the cursor after a read. Returns true, and consumes the bytes, if everything was
    /// there.
    bool finish(const Cursor& cursor);
    Failure fail(error_code code);

    Input input_;
    /// The next attempt needs at least this many unread bytes to get further.
    std::size_t needed_ = 1;
    Accepted accepted_;
    bool has_greeted_ = false;
    /// The client uses the opcodes of PyTorch 2.1.
    bool is_legacy_ = false;
    std::optional<List> list_;
    std::optional<Failure> failure_;
};

}  // namespace ddprun::wire
