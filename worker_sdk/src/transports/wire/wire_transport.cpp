// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/wire_transport.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/transports/wire/schedule.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace ddprun::groups {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

int place_of(const WireTransport::Settings& settings) {
    const auto& ranks = settings.ranks;
    return static_cast<int>(
        std::find(ranks.begin(), ranks.end(), settings.own_rank) - ranks.begin());
}

/// The time starts when all peers have published their addresses and read all others'.
milliseconds time_to_connect(std::size_t ranks) {
    return waiting_times::connect_timeout +
           static_cast<milliseconds::rep>(ranks) * waiting_times::connect_timeout_of_each;
}

}  // namespace

std::variant<std::unique_ptr<WireTransport>, GroupError> WireTransport::open(Settings settings) {
    auto mesh = Mesh::open(
        {place_of(settings),
         static_cast<int>(settings.ranks.size()),
         settings.address,
         settings.has_core});
    if (auto* error = std::get_if<GroupError>(&mesh)) {
        error->text = text_of({settings.own_rank}) + " cannot listen at " + settings.address +
                      ": " + error->text;
        return std::move(*error);
    }
    return std::make_unique<WireTransport>(
        std::move(settings), std::get<std::unique_ptr<Mesh>>(std::move(mesh)));
}

WireTransport::WireTransport(Settings settings, std::unique_ptr<Mesh> mesh)
    : settings_(std::move(settings)),
      mesh_(std::move(mesh)) {}

Outcome WireTransport::connect(const std::function<void()>& during_wait) {
    Outcome error;
    try {
        const auto addresses = exchange_addresses(during_wait);
        const auto until =
            std::min(settings_.deadline, Clock::now() + time_to_connect(settings_.ranks.size()));
        error = mesh_->connect(addresses, {until, during_wait});
        if (error) error = named(std::move(*error));
    } catch (const PeerLost& thrown) {
        error = GroupError{GroupError::Kind::peer_lost, thrown.what(), thrown.ranks()};
    } catch (const Error& thrown) {
        // Both enumerations have the same numbers.
        error = GroupError{static_cast<GroupError::Kind>(thrown.code()), thrown.what()};
    }
    if (!error) return {};
    if (error->kind != GroupError::Kind::peer_lost || error->ranks.empty())
        error->text = text_of({settings_.own_rank}) + " at " + settings_.address +
                      " could not connect to its peers: " + error->text;
    return error;
}

/// No rank begins to connect before all have published their addresses.
std::vector<PeerAddress> WireTransport::exchange_addresses(
    const std::function<void()>& during_wait) {
    const auto key = [this](std::size_t place) { return settings_.prefix + std::to_string(place); };
    const auto own = static_cast<std::size_t>(place_of(settings_));
    settings_.store.set(key(own), written(mesh_->own_address()));
    std::vector<PeerAddress> addresses;
    for (std::size_t place = 0; place < settings_.ranks.size(); ++place) {
        if (place == own) {
            addresses.push_back(mesh_->own_address());
            continue;
        }
        const auto text =
            settings_.deaths.await(settings_.store, key(place), settings_.deadline, [&] {
                if (during_wait) during_wait();
                if (mesh_->is_aborted()) throw PeerLost("aborted");
            });
        const auto address = peer_address_from(text);
        if (!address)
            throw Error(
                text_of({settings_.ranks[place]}) +
                " runs another release of the SDK: what it has published is no address of this "
                "one");
        addresses.push_back(*address);
    }
    for (std::size_t place = 0; place < addresses.size(); ++place)
        if (const auto why = why_unreachable(addresses[place], mesh_->own_address().network))
            throw UsageError(text_of({settings_.ranks[place]}) + " listens at " + *why);
    return addresses;
}

Outcome WireTransport::run_step(
    const Collective& step,
    const Collective& whole,
    milliseconds timeout,
    const std::function<void()>& during_wait) {
    const int ranks = static_cast<int>(settings_.ranks.size());
    Exchange exchange(place_of(settings_), ranks);
    plan(step, place_of(settings_), ranks, scratch_, exchange);
    const auto tag = step.tag != 0 ? step.tag : tag_of(step);
    const Mesh::Limits limits{Clock::now() + timeout, during_wait};
    auto error = mesh_->perform(exchange, whole, tag, limits);
    if (!error) return {};
    if (error->kind == GroupError::Kind::mismatch) return mismatch_with(*error, whole);
    auto outcome = named(std::move(*error));
    // The late rank is not known: the rank that was waited for may itself be waiting for another.
    if (outcome.kind == GroupError::Kind::timeout) outcome.ranks.clear();
    return outcome;
}

GroupError WireTransport::mismatch_with(const GroupError& found, const Collective& whole) const {
    const int other = settings_.ranks[static_cast<std::size_t>(found.ranks.front())];
    return mismatch_between(
        text_of({settings_.own_rank}) + " is at " + describe(whole),
        text_of({other}) + " is at " + found.text);
}

/// Replaces the mesh's rank numbers by the group's.
GroupError WireTransport::named(GroupError error) const {
    if (error.ranks.empty()) return error;
    for (auto& rank : error.ranks)
        rank = settings_.ranks[static_cast<std::size_t>(rank)];
    const bool is_late = error.kind == GroupError::Kind::timeout;
    const auto why = error.text.empty() ? error.text : " (" + error.text + ")";
    error.text = (is_late ? "timed out waiting for " : "lost ") + text_of(error.ranks) + why;
    return error;
}

}  // namespace ddprun::groups
