// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tunnel/tunnel.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/tunnel/error.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace ddprun::tunnel {
namespace {

Failure because(Error error) {
    return {make_error_code(error), {}};
}

}  // namespace

Tunnel::Tunnel(Side side, TunnelBounds bounds)
    : side_(side),
      bounds_(std::move(bounds)),
      has_preamble_(side == Side::opens) {
    if (side == Side::opens) output_ = preamble;
}

Tunnel::~Tunnel() {
    if (bounds_.held_by_all) *bounds_.held_by_all -= held_bytes_;
}

std::optional<StreamNumber> Tunnel::open(std::uint16_t caller_port) {
    require(side_ == Side::opens, "one side opens the streams");
    const bool is_full = streams_.size() >= bounds_.streams;
    if (is_full || last_ == std::numeric_limits<StreamNumber>::max()) return std::nullopt;
    const auto stream = last_ + 1;
    const auto place = streams_.emplace(stream, Stream{}).first;
    try {
        queue({stream, Kind::open, {}, caller_port});
    } catch (const std::bad_alloc&) {
        // The stream was not announced to the other end, so its number must be used again: numbers
        // have no gaps.
        streams_.erase(place);
        throw;
    }
    last_ = stream;
    return stream;
}

std::size_t Tunnel::may_send(StreamNumber stream) const {
    const auto place = streams_.find(stream);
    if (place == streams_.end()) return 0;
    const auto& it = place->second;
    const bool has_ended = it.has_sent_end || it.is_reset;
    return has_ended || output_.size() >= bounds_.output_bytes ? 0 : it.send_credit;
}

void Tunnel::send(StreamNumber stream, std::string_view data) {
    require(data.size() <= may_send(stream), "no more is sent than there is credit for");
    if (data.empty()) return;
    streams_.at(stream).send_credit -= data.size();
    for (; !data.empty(); data.remove_prefix(std::min(max_payload_bytes, data.size())))
        queue({stream, Kind::data, data.substr(0, max_payload_bytes)});
}

void Tunnel::end(StreamNumber stream) {
    const auto place = streams_.find(stream);
    if (place == streams_.end() || place->second.has_sent_end || place->second.is_reset) return;
    // Queued first: if memory runs out, the caller can still reset the stream, which has not ended
    // then.
    queue({stream, Kind::end});
    place->second.has_sent_end = true;
    forget_if_done(place);
}

void Tunnel::reset(StreamNumber stream) {
    const auto place = streams_.find(stream);
    if (place == streams_.end()) return;
    if (!place->second.is_over()) queue({stream, Kind::reset});
    place->second.is_reset = true;
    release(place, place->second.held);
    forget_if_done(place);
}

void Tunnel::took(StreamNumber stream, std::size_t bytes) {
    const auto place = streams_.find(stream);
    if (place == streams_.end()) return;
    auto& it = place->second;
    release(place, bytes);
    it.owed += bytes;
    // Credit is sent only for half a window at a time, to save frames: the sender still has the
    // other half.
    if (!it.has_received_end && !it.is_reset && it.owed >= limits::tunnel_window_bytes / 2) {
        queue({stream, Kind::credit, {}, static_cast<std::uint32_t>(it.owed)});
        it.receive_credit += std::exchange(it.owed, 0);
    }
    forget_if_done(place);
}

Result<std::size_t> Tunnel::receive(std::string_view bytes, std::vector<Effect>& out) {
    std::size_t taken = 0;
    if (!has_preamble_) {
        const auto begin = bytes.substr(0, preamble.size());
        if (begin != preamble.substr(0, begin.size())) return because(Error::other_protocol);
        if (begin.size() < preamble.size()) return std::size_t{0};
        has_preamble_ = true;
        taken = preamble.size();
    }
    for (;;) {
        const auto frame = decode(bytes.substr(taken));
        if (!frame) return frame.error();
        if (!*frame) return taken;
        if (const auto handled = handle(**frame, out); !handled) return handled.error();
        taken += (*frame)->encoded_bytes();
    }
}

Result<> Tunnel::handle(const Frame& frame, std::vector<Effect>& out) {
    if (frame.kind == Kind::open) return on_open(frame, out);
    if (frame.stream == 0 || frame.stream > last_) return because(Error::wrong_stream);
    const auto place = streams_.find(frame.stream);
    // No error: the other end may have sent this before it received the end or the reset.
    if (place == streams_.end() || place->second.is_reset) return {};
    auto& stream = place->second;
    switch (frame.kind) {
        case Kind::open: break;
        case Kind::data: return on_data(place, frame, out);
        case Kind::credit: return on_credit(place, frame, out);
        case Kind::end:
            if (std::exchange(stream.has_received_end, true)) return because(Error::after_end);
            out.emplace_back(Ended{frame.stream});
            forget_if_done(place);
            break;
        case Kind::reset:
            stream.is_reset = true;
            out.emplace_back(Broken{frame.stream});
            forget_if_done(place);
            break;
    }
    return {};
}

Result<> Tunnel::on_open(const Frame& frame, std::vector<Effect>& out) {
    if (side_ == Side::opens) return because(Error::wrong_direction);
    if (frame.stream == 0 || frame.stream - 1 != last_) return because(Error::wrong_stream);
    last_ = frame.stream;
    if (streams_.size() >= bounds_.streams) {
        queue({frame.stream, Kind::reset});
        return {};
    }
    streams_.emplace(frame.stream, Stream{});
    out.emplace_back(Opened{frame.stream, static_cast<std::uint16_t>(frame.number)});
    return {};
}

Result<> Tunnel::on_data(Streams::iterator place, const Frame& frame, std::vector<Effect>& out) {
    auto& stream = place->second;
    if (stream.has_received_end) return because(Error::after_end);
    if (frame.data.size() > stream.receive_credit) return because(Error::too_much_data);
    stream.receive_credit -= frame.data.size();
    if (!may_hold(frame.data.size())) {
        reset(frame.stream);
        out.emplace_back(Broken{frame.stream});
        return {};
    }
    hold(place, frame.data.size());
    out.emplace_back(Arrived{frame.stream, frame.data});
    return {};
}

Result<> Tunnel::on_credit(Streams::iterator place, const Frame& frame, std::vector<Effect>& out) {
    auto& stream = place->second;
    if (frame.number > limits::tunnel_window_bytes - stream.send_credit)
        return because(Error::too_much_credit);
    const bool had_none = stream.send_credit == 0;
    stream.send_credit += frame.number;
    if (had_none && !stream.has_sent_end) out.emplace_back(MaySend{frame.stream});
    return {};
}

std::string Tunnel::take_output() {
    return std::exchange(output_, {});
}

bool Tunnel::may_hold(std::size_t bytes) const {
    const auto held = bounds_.held_by_all ? *bounds_.held_by_all : held_bytes_;
    return held + bytes <= bounds_.held_bytes;
}

void Tunnel::hold(Streams::iterator place, std::size_t bytes) {
    place->second.held += bytes;
    held_bytes_ += bytes;
    if (bounds_.held_by_all) *bounds_.held_by_all += bytes;
}

void Tunnel::release(Streams::iterator place, std::size_t bytes) {
    require(bytes <= place->second.held, "no more is taken than arrived");
    place->second.held -= bytes;
    held_bytes_ -= bytes;
    if (bounds_.held_by_all) *bounds_.held_by_all -= bytes;
}

void Tunnel::forget_if_done(Streams::iterator place) {
    if (place->second.is_over() && place->second.held == 0) streams_.erase(place);
}

}  // namespace ddprun::tunnel
