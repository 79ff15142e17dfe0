// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/tunnel/frame.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::tunnel {

struct TunnelBounds {
    std::size_t streams = limits::max_tunnel_streams;
    /// The limit for received bytes that the sockets of the streams have not taken yet.
    std::size_t held_bytes = limits::max_tunnel_held_bytes;
    /// The limit for unsent bytes; beyond it `may_send` is 0.
    std::size_t output_bytes = limits::max_tunnel_output_bytes;
    /// The bytes held by all tunnels that share `held_bytes`; null: the limit is for this tunnel
    /// alone.
    std::shared_ptr<std::size_t> held_by_all = nullptr;
};

/// One end of a tunnel: its table of streams, without the connection and without the streams'
/// sockets. Driven by agent/runner/tunnel_link, one for each end.
///
///   stream     --Opened-->       open both ways
///   open       --end()-->        takes data still
///   open       --Ended-->        sends data still
///   both ended, or reset         over: its number is not used again
///
/// Data of a stream arrives whole and in order before its end. Each direction of a stream has a
/// window. The sender stops at its end, and the receiver extends it as its socket takes the bytes.
/// So a stream that no program reads holds `limits::tunnel_window_bytes` at most, and does not
/// block other streams. When all streams together exceed `TunnelBounds::held_bytes`, the stream
/// whose data arrives then is reset.
class Tunnel {
public:
    enum class Side : std::uint8_t { opens, accepts };

    // ---- effects of `receive` ----

    struct Opened {
        StreamNumber stream;
        std::uint16_t caller_port;
        bool operator==(const Opened&) const = default;
    };
    /// Must be reported with `took` once the socket has taken it.
    struct Arrived {
        StreamNumber stream;
        /// A view of the received bytes.
        std::string_view data;
        bool operator==(const Arrived&) const = default;
    };
    /// Nothing more arrives.
    struct Ended {
        StreamNumber stream;
        bool operator==(const Ended&) const = default;
    };
    /// Nothing more arrives, and nothing more can be sent.
    struct Broken {
        StreamNumber stream;
        bool operator==(const Broken&) const = default;
    };
    /// The stream has credit again, so more data may be sent.
    struct MaySend {
        StreamNumber stream;
        bool operator==(const MaySend&) const = default;
    };
    using Effect = std::variant<Opened, Arrived, Ended, Broken, MaySend>;

    explicit Tunnel(Side side, TunnelBounds bounds = {});
    ~Tunnel();
    Tunnel(const Tunnel&) = delete;
    Tunnel& operator=(const Tunnel&) = delete;

    /// None when no further stream is allowed. If memory runs out, nothing has changed. Requires:
    /// this is the side that opens streams.
    std::optional<StreamNumber> open(std::uint16_t caller_port);

    /// How many bytes may be sent; 0 for a stream that is over.
    std::size_t may_send(StreamNumber stream) const;
    /// Requires: not more than `may_send`.
    void send(StreamNumber stream, std::string_view data);
    /// Nothing more is sent. Harmless when repeated.
    void end(StreamNumber stream);
    /// Nothing more is sent, and what arrives is dropped. Harmless when repeated.
    void reset(StreamNumber stream);
    /// The socket has taken, or will never take, this many of the received bytes of the stream.
    void took(StreamNumber stream, std::size_t bytes);

    /// Handles the complete frames at the front and returns their length. The caller gives the rest
    /// again, followed by more bytes. After a failure the tunnel is over.
    Result<std::size_t> receive(std::string_view bytes, std::vector<Effect>& out);

    bool has_output() const { return !output_.empty(); }
    std::string take_output();
    /// Counts streams that are not over, and those whose last data waits for its socket.
    std::size_t stream_count() const { return streams_.size(); }
    std::size_t held_bytes() const { return held_bytes_; }

private:
    struct Stream {
        std::size_t send_credit = limits::tunnel_window_bytes;
        /// The credit that the other end still has.
        std::size_t receive_credit = limits::tunnel_window_bytes;
        /// Bytes received and not yet taken by the socket.
        std::size_t held = 0;
        /// Bytes taken by the socket, for which no credit has been sent yet.
        std::size_t owed = 0;
        bool has_sent_end = false;
        bool has_received_end = false;
        bool is_reset = false;

        bool is_over() const { return is_reset || (has_sent_end && has_received_end); }
    };
    using Streams = std::map<StreamNumber, Stream>;

    Result<> handle(const Frame& frame, std::vector<Effect>& out);
    Result<> on_open(const Frame& frame, std::vector<Effect>& out);
    Result<> on_data(Streams::iterator place, const Frame& frame, std::vector<Effect>& out);
    Result<> on_credit(Streams::iterator place, const Frame& frame, std::vector<Effect>& out);
    void queue(const Frame& frame) { encode(frame, output_); }
    bool may_hold(std::size_t bytes) const;
    void hold(Streams::iterator place, std::size_t bytes);
    void release(Streams::iterator place, std::size_t bytes);
    void forget_if_done(Streams::iterator place);

    Side side_;
    TunnelBounds bounds_;
    bool has_preamble_;
    StreamNumber last_ = 0;
    Streams streams_;
    std::size_t held_bytes_ = 0;
    std::string output_;
};

}  // namespace ddprun::tunnel
