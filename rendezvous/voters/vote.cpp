// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/vote.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

namespace ddprun::voters {

const std::string& job_of(const Request& request) {
    return std::visit(
        [](const auto& message) -> const std::string& { return message.job; }, request);
}

Unknown unknown_to(const Request& request) {
    return {std::visit([](const auto& message) { return message.ballot; }, request)};
}

std::string describe(const Ballot& ballot) {
    return std::to_string(ballot.counter) + "." + ballot.proposer.to_short_string();
}

std::string describe(const Request& request) {
    return std::visit(
        Overloaded{
            [](const Prepare& prepare) { return "prepare " + describe(prepare.ballot); },
            [](const Accept& accept) {
                return "accept " + describe(accept.ballot) + ": " + describe(accept.record);
            },
        },
        request);
}

std::string describe(const Answer& answer) {
    return std::visit(
        Overloaded{
            [](const Promise& promise) {
                auto text = "promise " + describe(promise.ballot);
                if (const auto& vote = promise.vote)
                    text += " after " + describe(vote->ballot) + ": " + describe(vote->record) +
                            " for " + seconds_text(vote->age);
                return text;
            },
            [](const Accepted& accepted) { return "accepted " + describe(accepted.ballot); },
            [](const Refused& refused) {
                return "refused " + describe(refused.ballot) + ", promised " +
                       describe(refused.promised);
            },
            [](const Unknown& unknown) { return "unknown " + describe(unknown.ballot); },
        },
        answer);
}

}  // namespace ddprun::voters
