// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/worker_order.hpp"

/// The fields of orders to agents about their workers, and of the answers, as in fields.hpp.
namespace ddprun::control {

template <class Io>
void fields(Io& io, Like<Io, RankRange>& ranks) {
    io("first", ranks.first, any_count);
    io("last", ranks.last, Whole{ranks.first, biggest_int});
}

template <>
inline constexpr std::string_view type_name<RankStack> = "rank_stack";
template <class Io>
void fields(Io& io, Like<Io, RankStack>& stack) {
    io("rank", stack.rank, any_count);
    io("pid", stack.pid, any_count);
    io("activity", stack.activity, Name{});
    io.optional("site", stack.site, Text{});
    io.optional("detail", stack.detail, Text{});
    io.optional("stacks", stack.stacks, Text{});
}

template <>
inline constexpr std::string_view type_name<WorkerOrder> = "worker_order";
template <class Io>
void fields(Io& io, Like<Io, WorkerOrder>& order) {
    io("id", order.id);
    io("round", order.round, round_number);
    io("what", order.what);
    io.optional("signal", order.signal, some_signal);
    io("ranks", order.ranks);
    io("by", order.by, Name{});
}

template <>
inline constexpr std::string_view type_name<WorkerAnswer> = "worker_answer";
template <class Io>
void fields(Io& io, Like<Io, WorkerAnswer>& answer) {
    io("id", answer.id);
    io("what", answer.what);
    io("ranks", answer.ranks);
    io("done", answer.is_done);
    io.optional("text", answer.text, Text{});
    io.optional("stack", answer.stack);
}

template <>
inline constexpr std::string_view type_name<RankReport> = "rank_report";
template <class Io>
void fields(Io& io, Like<Io, RankReport>& report) {
    io("rank", report.rank, any_count);
    io.optional("stack", report.stack);
    io.optional("problem", report.problem, Text{});
}

}  // namespace ddprun::control
