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

/// The first time nobody has to promise anything: the member itself notices at about the same
/// moment that it is cut off, and begins to ask for vouches.
std::optional<Suspicion::Question> Suspicion::ask(Instant now) {
    if (now < next_ask_) return std::nullopt;
    next_ask_ = now + limits::ask_interval;
    return Question{asked_count_++ > 0 && !is_vouched_for(now)};
}

void Suspicion::note(const Nonce& witness, std::optional<Instant> vouched_at, bool has_disowned) {
    auto& answer = answers_[witness];
    if (vouched_at && (!answer.vouched_at || *vouched_at > *answer.vouched_at))
        answer.vouched_at = vouched_at;
    if (has_disowned) answer.has_disowned = true;
}

std::optional<Instant> Suspicion::lost_at(
    Instant heard_at, const std::vector<Witness>& witnesses) const {
    const bool is_disowned =
        std::all_of(witnesses.begin(), witnesses.end(), [&](const Witness& witness) {
            return is_disowned_by(witness);
        });
    if (!is_disowned) return std::nullopt;
    auto last = std::max(heard_at, last_vouch().value_or(heard_at));
    for (const auto& witness : witnesses)
        if (witness.gone_at && !has_promised(witness)) last = std::max(last, *witness.gone_at);
    return last + limits::lost_when_disowned;
}

std::string Suspicion::reason(const std::vector<Witness>& witnesses, Instant now) const {
    std::optional<std::pair<Instant, std::string>> latest;
    std::string silent;
    std::string disowning;
    for (const auto& witness : witnesses) {
        const auto found = answers_.find(witness.nonce);
        if (found != answers_.end() && found->second.vouched_at &&
            (!latest || *found->second.vouched_at > latest->first))
            latest = {*found->second.vouched_at, witness.host};
        auto& list = is_disowned_by(witness) ? disowning : silent;
        const bool counts = is_disowned_by(witness) || witness.state == Witness::State::silent;
        if (counts) list += (list.empty() ? "" : ", ") + witness.host;
    }
    if (latest && is_vouched_for(now))
        return "node " + latest->second + " heard from it " +
               suspecting::tenths(now - latest->first) + " ago: kept";
    if (!silent.empty()) return silent + " may hear it, but cannot be asked";
    if (!disowning.empty()) return "none of its neighbours hears it: " + disowning;
    return "its neighbours are being asked";
}

bool Suspicion::is_vouched_for(Instant now) const {
    const auto last = last_vouch();
    return last && now - *last <= limits::vouch_window;
}

std::optional<Instant> Suspicion::last_vouch() const {
    std::optional<Instant> last;
    for (const auto& [witness, answer] : answers_)
        if (answer.vouched_at)
            last = std::max(last.value_or(*answer.vouched_at), *answer.vouched_at);
    return last;
}

bool Suspicion::is_disowned_by(const Witness& witness) const {
    return witness.state == Witness::State::gone || has_promised(witness);
}

bool Suspicion::has_promised(const Witness& witness) const {
    const auto found = answers_.find(witness.nonce);
    return found != answers_.end() && found->second.has_disowned;
}

}  // namespace ddprun::coordinator
