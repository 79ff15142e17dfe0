// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/agreement.hpp"

#include <string.h>

#include <algorithm>
#include <sstream>

namespace ddprun::reduce {

namespace {

constexpr std::size_t longest_complaint = 512;

/// Every rank's fingerprint, in the order of ranks.
std::vector<std::int64_t> gather(const ProcessGroup& group, std::int64_t mine) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
    group.all_gather(&mine, all.data(), 1).wait();
    return all;
}

std::string from_rank_0(const ProcessGroup& group, const std::string& mine) {
    auto size = static_cast<std::int64_t>(mine.size());
    group.broadcast(&size, 1).wait();
    std::string text = mine;
    text.resize(static_cast<std::size_t>(size));
    group.broadcast(reinterpret_cast<std::byte*>(text.data()), text.size()).wait();
    return text;
}

/// The complaint of the lowest rank that has one.
std::string first_complaint(const ProcessGroup& group, const std::string& mine) {
    std::string here = mine;
    here.resize(longest_complaint);
    std::string all(longest_complaint * static_cast<std::size_t>(group.size()), '\0');
    group
        .all_gather(
            reinterpret_cast<const std::byte*>(here.data()),
            reinterpret_cast<std::byte*>(all.data()),
            longest_complaint)
        .wait();
    for (std::size_t start = 0; start < all.size(); start += longest_complaint) {
        const std::string one = all.substr(start, longest_complaint).c_str();
        if (!one.empty()) return one;
    }
    return {};
}

}  // namespace

std::int64_t fingerprint(const void* data, std::size_t bytes) {
    // Eight bytes at a time: FNV-1a's structure, with a rotation so that high bits matter as well.
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t hash = 0xcbf29ce484222325 ^ bytes;
    for (; bytes > 0;) {
        std::uint64_t word = 0;
        const auto size = std::min(bytes, sizeof word);
        ::memcpy(&word, at, size);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
        at += size;
        bytes -= size;
    }
    return static_cast<std::int64_t>(hash);
}

std::string text_of(const std::vector<ParameterSpec>& parameters, const Reducer::Options& options) {
    std::string text = "first_bucket_bytes " + std::to_string(options.first_bucket_bytes) +
                       ", bucket_bytes " + std::to_string(options.bucket_bytes) + "\n";
    for (const auto& parameter : parameters)
        text += parameter.name + " with " + std::to_string(parameter.count) + " elements\n";
    return text;
}

std::string first_difference(const std::string& here, const std::string& on_rank_0) {
    std::istringstream ours(here);
    std::istringstream theirs(on_rank_0);
    std::string our_line;
    std::string their_line;
    for (std::size_t line = 0;; ++line) {
        const bool has_ours = bool(std::getline(ours, our_line));
        const bool has_theirs = bool(std::getline(theirs, their_line));
        if (!has_ours && !has_theirs) return {};
        if (has_ours && has_theirs && our_line == their_line) continue;
        const auto what = line == 0 ? std::string{"the options are "}
                                    : "parameter " + std::to_string(line - 1) + " is ";
        return what + (has_ours ? our_line : "missing") + ", on rank 0 " +
               (line == 0 ? "they are " : "it is ") + (has_theirs ? their_line : "missing");
    }
}

void require_same_parameters(
    const ProcessGroup& group,
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options) {
    const auto here = text_of(parameters, options);
    const auto all = gather(group, fingerprint(here.data(), here.size()));
    if (std::all_of(all.begin(), all.end(), [&](auto one) { return one == all.front(); })) return;

    auto complaint = first_difference(here, from_rank_0(group, here));
    if (!complaint.empty()) complaint = "rank " + std::to_string(group.rank()) + ": " + complaint;
    throw Mismatch("the ranks have different models: " + first_complaint(group, complaint));
}

}  // namespace ddprun::reduce
