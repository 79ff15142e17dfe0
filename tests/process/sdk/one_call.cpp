// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/one_call.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

namespace ddprun::tests {

namespace {

constexpr std::size_t most_elements = 30'000;

struct Buffers {
    std::vector<float> input;
    std::vector<float> output;

    explicit Buffers(int ranks)
        : input(most_elements * static_cast<std::size_t>(ranks)),
          output(input.size()) {}
};

using Works = std::vector<Work>;
using Call = std::function<void(const ProcessGroup&, Buffers&, std::size_t, Works&)>;

void go_round(const ProcessGroup& group, Buffers& in, std::size_t count, Works& works) {
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    works.push_back(group.send(in.input.data(), count, next));
    works.push_back(group.recv(in.output.data(), count, previous));
}

const std::map<std::string, Call>& calls() {
    static const std::map<std::string, Call> all{
        {"all_reduce",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.all_reduce(in.output.data(), count));
         }},
        {"reduce",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.reduce(in.output.data(), count, 0));
         }},
        {"broadcast",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.broadcast(in.output.data(), count, 0));
         }},
        {"all_gather",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.all_gather(in.input.data(), in.output.data(), count));
         }},
        {"reduce_scatter",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.reduce_scatter(in.input.data(), in.output.data(), count));
         }},
        {"gather",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.gather(in.input.data(), in.output.data(), count, 0));
         }},
        {"scatter",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.scatter(in.input.data(), in.output.data(), count, 0));
         }},
        {"all_to_all",
         [](auto& group, auto& in, auto count, auto& works) {
             works.push_back(group.all_to_all(in.input.data(), in.output.data(), count));
         }},
        {"barrier",
         [](auto& group, auto&, auto, auto& works) { works.push_back(group.barrier()); }},
        {"message", go_round}};
    return all;
}

}  // namespace

const std::vector<std::string>& call_names() {
    static const auto names = [] {
        std::vector<std::string> all;
        for (const auto& [name, call] : calls())
            all.push_back(name);
        return all;
    }();
    return names;
}

void make_call(const ProcessGroup& group, const std::string& name, std::size_t count) {
    Buffers buffers(group.size());
    Works works;
    calls().at(name)(group, buffers, count, works);
    for (auto& work : works)
        work.wait();
}

void repeat_call(const ProcessGroup& group, const std::string& name, std::size_t in_flight) {
    const auto& call = calls().at(name);
    std::vector<Buffers> buffers(in_flight, Buffers(group.size()));
    for (std::size_t i = 0;; ++i) {
        Works works;
        for (auto& in : buffers)
            call(group, in, i % 2 == 0 ? 10 : most_elements, works);
        for (auto& work : works)
            work.wait();
    }
}

}  // namespace ddprun::tests
