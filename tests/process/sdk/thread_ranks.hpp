// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"
#include "ddprun/process_group.hpp"
#include "worker_sdk/src/c/group.hpp"
#include "worker_sdk/src/groups/loopback.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

/// Ranks that are threads of this process.
namespace ddprun::test {

using Texts = std::vector<std::string>;

/// One rank's group.
inline ProcessGroup join(
    const std::shared_ptr<groups::Loopback>& loopback,
    int rank,
    int size,
    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    return ProcessGroup(new ddprun_group{groups::Group::create(
        {rank, size, Backend::loopback, timeout},
        [=]() -> groups::Group::Opened { return groups::Loopback::transport(loopback, rank); },
        nullptr)});
}

/// Runs the body on `size` ranks; returns what each of them threw, "" for nothing.
inline Texts on_ranks(int size, const std::function<void(ProcessGroup)>& body) {
    const auto loopback = std::make_shared<groups::Loopback>(size);
    Texts complaints(static_cast<std::size_t>(size));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] {
            try {
                body(join(loopback, rank, size));
            } catch (const Error& error) {
                complaints[static_cast<std::size_t>(rank)] = error.what();
            }
        });
    for (auto& rank : ranks)
        rank.join();
    return complaints;
}

/// For the bodies, since doctest's checks may only be used on the test's thread.
inline void require(bool holds, const std::string& what) {
    if (!holds) throw Error(what);
}

/// The text of the UsageError that `call` throws.
template <class Call>
std::string misuse(Call call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "allowed";
}

}  // namespace ddprun::test
