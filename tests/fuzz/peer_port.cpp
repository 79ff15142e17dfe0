// SPDX-License-Identifier: Apache-2.0
// Any bytes on an agent's neighbour port. First they are the input of one caller, at every length
// that may have arrived: a line counts when nothing follows it and it is not too long. Then each
// line is a call during a whole round, with answers to the agent's own probes and the server's
// questions in between. A valid line is encoded to the same line again, a confirmed member gets no
// further answer, and lines of other nodes confirm no member.
#include "agent/supervise/neighbours.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace {

using namespace ddprun;
using namespace ddprun::agent;

constexpr int current_round = 7;

Nonce nonce_of(std::uint8_t last) {
    std::array<std::uint8_t, 16> bytes{};
    bytes[15] = last;
    return Nonce{bytes};
}

const Nonce self = nonce_of(1);

/// Undecided until there is a line feed, or as many bytes as are allowed.
void check_arrival(std::string_view bytes) {
    const auto feed = std::min(bytes.find('\n'), bytes.size());
    for (std::size_t size = 0; size <= std::min(bytes.size(), max_peer_line_bytes + 1); ++size) {
        const auto line = peer_line(bytes.substr(0, size));
        const bool is_decided = size > feed || size >= max_peer_line_bytes;
        require(line.has_value() == is_decided, "a line too early, or a caller may go on for ever");
        if (!line) continue;
        const bool is_line = size == feed + 1 && size <= max_peer_line_bytes;
        require(*line == (is_line ? bytes.substr(0, feed) : ""), "other than what was sent");
    }
}

template <class Message>
void check_echo(const std::optional<Message>& message, std::string_view line) {
    if (!message) return;
    const auto again = encode(*message);
    require(again == std::string{line} + '\n', "understood something else than was sent");
    require(again.size() <= max_peer_line_bytes, "our own line is too long");
}

/// One agent in one round, and what it has sent.
class Round {
public:
    Round() {
        neighbours_.enter(
            current_round, {{nonce_of(2), "10.0.0.2", 2}, {nonce_of(3), "10.0.0.3", 3}});
    }

    /// "+N": N ms pass. "a", "d" and a digit: the server asks about that node, and the second time
    /// requests a confirmation. "q": the agent probes. Any other line is from a caller or a
    /// neighbour.
    void hear(std::string_view line) {
        const auto probe = parse_peer_probe(line);
        const auto said = parse_peer_answer(line);
        check_echo(probe, line);
        check_echo(said, line);
        if (probe) return take(*probe);
        if (said) return neighbours_.on_answer(next_answered_++, *said);
        if (line.starts_with('+')) return pass(line.substr(1));
        if (line == "q") return ask();
        if (line.size() == 2 && (line[0] == 'a' || line[0] == 'd'))
            asked_about(nonce_of(static_cast<std::uint8_t>(line[1] - '0')), line[0] == 'd');
    }

private:
    void take(const PeerProbe& probe) {
        const bool is_valid = now_.time_since_epoch() < std::chrono::seconds{30};
        const auto answer = neighbours_.answer(probe, is_valid, now_);
        if (probe.to != self) return require(!answer, "answered for another node");
        require(answer && answer->round == current_round, "an answer names our round");
        const bool is_accepted = answer->kind == PeerAnswer::Kind::accepted;
        if (!is_accepted) return;
        require(probe.round == current_round && is_valid, "answered without a valid lease");
        require(!confirmed_.contains(probe.node), "answered a node that it has confirmed");
    }

    void asked_about(const Nonce& node, bool confirms) {
        const auto said = neighbours_.on_asked_about({node, current_round, confirms}, now_);
        require(said && said->node == node && said->round == current_round, "another answer");
        if (said->has_confirmed) {
            require(confirms || confirmed_.contains(node), "confirmed without being asked");
            confirmed_.insert(node);
        } else {
            require(!confirmed_.contains(node), "took a confirmation back");
            require(!confirms || said->heard_ago.has_value(), "answers without having heard it");
        }
    }

    void ask() {
        for (const auto& ask : neighbours_.ask_all(now_))
            require(ask.probe.node == self && ask.probe.round == current_round, "asks as another");
        require(neighbours_.reached_count() <= 2, "reached more than there are");
    }

    void pass(std::string_view milliseconds) {
        std::uint16_t count = 0;
        std::from_chars(milliseconds.data(), milliseconds.data() + milliseconds.size(), count);
        now_ += std::chrono::milliseconds{count};
    }

    Neighbours neighbours_{self};
    Instant now_{};
    int next_answered_ = 1;
    std::set<Nonce> confirmed_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes{reinterpret_cast<const char*>(data), size};
    check_arrival(bytes);
    Round round;
    for (const auto line : split(bytes, '\n'))
        round.hear(line);
    return 0;
}
