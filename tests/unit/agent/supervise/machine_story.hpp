// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::test {

/// A machine on a simulated clock, and everything that it ordered. The derived class has the
/// machine as a member.
template <class Machine>
struct MachineStory {
    using Effects = std::vector<typename Machine::Effect>;

    explicit MachineStory(Machine& machine) : machine_(machine) {}
    MachineStory(const MachineStory&) = delete;
    MachineStory& operator=(const MachineStory&) = delete;

    Instant clock{};
    Effects out;

    void is(typename Machine::Event event) { machine_.handle(std::move(event), clock, out); }
    /// Time passes; every deadline in between is handled.
    void pass(Duration length) {
        const auto end = clock + length;
        while (machine_.next_deadline() && *machine_.next_deadline() <= end) {
            clock = std::max(clock, *machine_.next_deadline());
            is(typename Machine::DeadlinePassed{});
        }
        clock = end;
    }
    /// The orders since the last call.
    Effects asked() { return std::exchange(out, {}); }
    template <class T>
    std::vector<T> asked_for() const {
        std::vector<T> found;
        for (const auto& effect : out)
            if (const auto* one = std::get_if<T>(&effect)) found.push_back(*one);
        return found;
    }

private:
    Machine& machine_;
};

/// A machine whose effects are compared as lines, event by event.
template <class Machine>
struct LineStory {
    using Lines = std::vector<std::string>;

    Machine machine;
    Instant now{};

    Lines is(typename Machine::Event event) {
        std::vector<typename Machine::Effect> effects;
        machine.handle(std::move(event), now, effects);
        Lines lines;
        for (const auto& effect : effects)
            lines.push_back(describe(effect));
        return lines;
    }
};

/// Used by doctest's toString.
template <class Effect>
doctest::String lines_of(const std::vector<Effect>& effects) {
    std::string text;
    for (const auto& effect : effects)
        text += describe(effect) + "; ";
    return text.c_str();
}

}  // namespace ddprun::test
