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
    /// Received, and not taken by the sockets of the streams yet.
    std::size_t held_bytes = limits::max_tunnel_held_bytes;
    /// To be written: with more, `may_send` is 0.
    std::size_t output_bytes = limits::max_tunnel_output_bytes;
    /// What all tunnels that share `held_bytes` hold; null: it is this one's alone.
    std::shared_ptr<std::size_t> held_by_all = nullptr;
};

/// One end of a tunnel: its table of streams, without the connection and without the sockets that
/// the streams are joined to. Driven by agent/runner/tunnel_link, one for each end.
///
///   stream     --Opened-->       open both ways
///   open       --end()-->        takes data still
///   open       --Ended-->        sends data still
///   both ended, or reset         over: its number is not used again
///
/// What is sent on a stream arrives whole and in order before its end. Each direction of a stream
/// has a window: the sender stops at its end, and the receiver widens it as its socket takes the
/// bytes, so a stream that no program reads holds `limits::tunnel_window_bytes` and stops nothing
/// else. Beyond `TunnelBounds::held_bytes` of all streams together the one whose data comes is
/// reset.
class Tunnel {
public:
    enum class Side : std::uint8_t { opens, accepts };

    // ---- effects of `receive` ----

    struct Opened {
        StreamNumber stream;
        std::uint16_t caller_port;
        bool operator==(const Opened&) const = default;
    };
    /// To be reported with `took` once the socket has taken it.
    struct Arrived {
        StreamNumber stream;
        /// In the bytes that were received.
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
    /// There was no credit for it before.
    struct MaySend {
        StreamNumber stream;
        bool operator==(const MaySend&) const = default;
    };
    using Effect = std::variant<Opened, Arrived, Ended, Broken, MaySend>;

    explicit Tunnel(Side side, TunnelBounds bounds = {});
    ~Tunnel();
    Tunnel(const Tunnel&) = delete;
    Tunnel& operator=(const Tunnel&) = delete;

    /// None: there are as many as may be. Without memory nothing has changed. Requires: this is the
    /// side that opens.
    std::optional<StreamNumber> open(std::uint16_t caller_port);

    /// How much; 0 of a stream that is over.
    std::size_t may_send(StreamNumber stream) const;
    /// Requires: not more than `may_send`.
    void send(StreamNumber stream, std::string_view data);
    /// Nothing more is sent. Harmless when repeated.
    void end(StreamNumber stream);
    /// Nothing more is sent, and what arrives is dropped. Harmless when repeated.
    void reset(StreamNumber stream);
    /// The socket has taken, or will never take, so many bytes of what arrived.
    void took(StreamNumber stream, std::size_t bytes);

    /// Handles the whole frames at the front, and returns how many bytes those are: the rest is to
    /// be given again, with more behind it. After a failure the tunnel is over.
    Result<std::size_t> receive(std::string_view bytes, std::vector<Effect>& out);

    bool has_output() const { return !output_.empty(); }
    std::string take_output();
    /// Of streams that are not over, and of those whose last data waits for its socket.
    std::size_t stream_count() const { return streams_.size(); }
    std::size_t held_bytes() const { return held_bytes_; }

private:
    struct Stream {
        std::size_t send_credit = limits::tunnel_window_bytes;
        /// That the other end has.
        std::size_t receive_credit = limits::tunnel_window_bytes;
        /// Arrived, and not taken yet.
        std::size_t held = 0;
        /// Taken, and no credit sent for it yet.
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
