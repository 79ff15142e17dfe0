// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/signal_options.hpp"

#include <doctest/doctest.h>

#include <signal.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

Options given(const std::map<std::string, std::string>& texts) {
    Options options;
    for (const auto& [name, text] : texts)
        options.given[name] = {text, "--" + name};
    return options;
}

SignalChoice choice(const std::map<std::string, std::string>& texts) {
    const auto result = signal_choice(given(texts), false);
    REQUIRE(result.has_value());
    return *result;
}

}  // namespace

TEST_CASE("torchrun's four signals stop the job and none is handed on unless asked for") {
    const auto usual = choice({});

    CHECK(describe_signals(usual.stopping.value) == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    CHECK(describe_signals(usual.forwarded.value) == "none");
    CHECK(usual.warnings.empty());
}

TEST_CASE("names may be short, in any case, and given twice") {
    const auto chosen = choice(
        {{"signals-to-handle", "TERM, sigint,SIGTERM"}, {"signals-to-forward", "usr1,SIGUSR2"}});

    CHECK(describe_signals(chosen.stopping.value) == "SIGTERM,SIGINT");
    CHECK(describe_signals(chosen.forwarded.value) == "SIGUSR1,SIGUSR2");
    CHECK(describe_signals(choice({{"signals-to-handle", ""}}).stopping.value) == "none");
}

TEST_CASE("of the signals to handle unknown names warn, as with torchrun") {
    const auto chosen = choice({{"signals-to-handle", "SIGTERM,SIGFOO,SIGKILL"}});

    CHECK(describe_signals(chosen.stopping.value) == "SIGTERM");
    REQUIRE(chosen.warnings.size() == 2);
    CHECK(chosen.warnings[0].starts_with("--signals-to-handle: 'SIGFOO': accepted are SIGTERM"));
    CHECK(chosen.warnings[1].starts_with("--signals-to-handle: 'SIGKILL': "));
}

TEST_CASE("of the signals to forward unknown names, and those that stop the job, are refused") {
    for (const auto* text : {"SIGFOO", "SIGKILL", "SIGTSTP", "SIGTERM", "usr1,int"}) {
        CAPTURE(text);
        const auto result = signal_choice(given({{"signals-to-forward", text}}), false);
        REQUIRE_FALSE(result.has_value());
        CHECK(result.error().context.starts_with("--signals-to-forward: '"));
    }
    const auto hung_up =
        choice({{"signals-to-handle", "SIGTERM,SIGINT"}, {"signals-to-forward", "SIGHUP"}});
    CHECK(describe_signals(hung_up.forwarded.value) == "SIGHUP");
}

TEST_CASE("a task of Slurm sends on what warns of the end, unless that stops the job") {
    const auto forwarded = [](const std::map<std::string, std::string>& texts) {
        return describe_signals(signal_choice(given(texts), true)->forwarded.value);
    };
    CHECK(forwarded({}) == "SIGUSR1,SIGUSR2");
    CHECK(forwarded({{"signals-to-handle", "SIGTERM,SIGUSR1"}}) == "SIGUSR2");
    CHECK(forwarded({{"signals-to-forward", ""}}) == "none");
}

TEST_CASE("the signal of a notice is one that stops nothing and is not handed on") {
    CHECK(choice({}).preemption.value == 0);
    CHECK(choice({{"preempt-signal", "usr1"}}).preemption.value == SIGUSR1);
    for (const auto* text : {"SIGKILL", "", "USR1,USR2", "TERM", "SIGINT"}) {
        CAPTURE(text);
        const auto result = signal_choice(given({{"preempt-signal", text}}), false);
        REQUIRE_FALSE(result.has_value());
        CHECK(result.error().context.starts_with("--preempt-signal: '"));
    }
    const auto both =
        signal_choice(given({{"preempt-signal", "USR1"}, {"signals-to-forward", "USR1"}}), false);
    CHECK_FALSE(both.has_value());
    // The signals that a Slurm step forwards by default, except this one.
    const auto in_slurm = signal_choice(given({{"preempt-signal", "USR1"}}), true);
    REQUIRE(in_slurm.has_value());
    CHECK(describe_signals(in_slurm->forwarded.value) == "SIGUSR2");
}
