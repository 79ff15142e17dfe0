// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/suspicion.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun::coordinator {
namespace suspecting {
namespace {

std::string tenths(Duration length) {
    return seconds_text(std::chrono::duration_cast<std::chrono::milliseconds>(length) / 100 * 100);
}

}  // namespace
}  // namespace suspecting

/// The first question requests no confirmation: the member itself notices the lost contact at about
/// the same time, and begins to probe.
std::optional<Suspicion::Question> Suspicion::ask(Instant now) {
    if (now < next_ask_) return std::nullopt;
    next_ask_ = now + limits::ask_interval;
    return Question{asked_count_++ > 0 && !is_reached(now)};
}

void Suspicion::note(const Nonce& witness, std::optional<Instant> answered_at, bool has_confirmed) {
    auto& answer = answers_[witness];
    if (answered_at && (!answer.answered_at || *answered_at > *answer.answered_at))
        answer.answered_at = answered_at;
    if (has_confirmed) answer.has_confirmed = true;
}

std::optional<Instant> Suspicion::lost_at(
    Instant heard_at, const std::vector<Witness>& witnesses) const {
    const bool is_confirmed =
        std::all_of(witnesses.begin(), witnesses.end(), [&](const Witness& witness) {
            return counts_as_confirmed(witness);
        });
    if (!is_confirmed) return std::nullopt;
    auto last = std::max(heard_at, last_answer().value_or(heard_at));
    for (const auto& witness : witnesses)
        if (witness.gone_at && !has_confirmed(witness)) last = std::max(last, *witness.gone_at);
    return last + limits::lost_when_confirmed;
}

std::string Suspicion::reason(const std::vector<Witness>& witnesses, Instant now) const {
    std::optional<std::pair<Instant, std::string>> latest;
    std::string silent;
    std::string confirming;
    for (const auto& witness : witnesses) {
        const auto found = answers_.find(witness.nonce);
        if (found != answers_.end() && found->second.answered_at &&
            (!latest || *found->second.answered_at > latest->first))
            latest = {*found->second.answered_at, witness.host};
        auto& list = counts_as_confirmed(witness) ? confirming : silent;
        const bool counts = counts_as_confirmed(witness) || witness.state == Witness::State::silent;
        if (counts) list += (list.empty() ? "" : ", ") + witness.host;
    }
    if (latest && is_reached(now))
        return "node " + latest->second + " heard from it " +
               suspecting::tenths(now - latest->first) + " ago: kept";
    if (!silent.empty()) return silent + " may hear it, but cannot be asked";
    if (!confirming.empty()) return "none of its neighbours hears it: " + confirming;
    return "its neighbours are being asked";
}

bool Suspicion::is_reached(Instant now) const {
    const auto last = last_answer();
    return last && now - *last <= limits::probe_window;
}

std::optional<Instant> Suspicion::last_answer() const {
    std::optional<Instant> last;
    for (const auto& [witness, answer] : answers_)
        if (answer.answered_at)
            last = std::max(last.value_or(*answer.answered_at), *answer.answered_at);
    return last;
}

bool Suspicion::counts_as_confirmed(const Witness& witness) const {
    return witness.state == Witness::State::gone || has_confirmed(witness);
}

bool Suspicion::has_confirmed(const Witness& witness) const {
    const auto found = answers_.find(witness.nonce);
    return found != answers_.end() && found->second.has_confirmed;
}

}  // namespace ddprun::coordinator
