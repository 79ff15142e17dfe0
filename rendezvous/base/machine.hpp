// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <concepts>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {

/// A state machine: its input is events and the time, its output is effects, and it does nothing
/// else.
///
/// `handle` appends its effects to `out` and never blocks, logs, or reads a clock.
/// `next_deadline` is when the machine needs its `DeadlinePassed` event; one that comes early,
/// late or twice is harmless, because a machine compares `now` with its own deadline.
/// The driver (net/driver.hpp) and the simulator (tests/sim) run any machine.
template <class M>
concept Machine = requires(
    M m, const M cm, typename M::Event event, Instant now, std::vector<typename M::Effect>& out) {
    { m.handle(std::move(event), now, out) } -> std::same_as<void>;
    { cm.next_deadline() } -> std::same_as<std::optional<Instant>>;
};

/// `std::visit` with one lambda per alternative; the compiler names the one that is missing.
template <class... Fs>
struct Overloaded : Fs... {
    using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

/// The earlier of two deadlines, where none means never.
inline std::optional<Instant> earliest(std::optional<Instant> a, std::optional<Instant> b) {
    if (!a) return b;
    if (!b) return a;
    return *a < *b ? a : b;
}

/// Aborts the program with the text when a machine's state is inconsistent. Also active in release
/// builds: a launcher whose record of its workers is wrong must not continue.
[[noreturn]] void contradiction(const char* what, const char* file, int line);

inline void require(
    bool holds,
    const char* what,
    const char* file = __builtin_FILE(),
    int line = __builtin_LINE()) {
    if (!holds) contradiction(what, file, line);
}

}  // namespace ddprun
