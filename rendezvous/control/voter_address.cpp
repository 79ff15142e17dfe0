// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/voter_address.hpp"

#include <utility>

namespace ddprun::control {
namespace {

constexpr std::string_view witness_word = "witness/";

}  // namespace

std::string VoterAddress::to_string() const {
    return (is_witness ? std::string{witness_word} : std::string{}) + endpoint.to_string();
}

std::optional<VoterAddress> parse_voter_address(std::string_view text) {
    const bool is_witness = text.starts_with(witness_word);
    if (is_witness) text.remove_prefix(witness_word.size());
    auto endpoint = parse_endpoint(text, 0);
    if (!endpoint) return std::nullopt;
    return VoterAddress{std::move(*endpoint), is_witness};
}

}  // namespace ddprun::control
