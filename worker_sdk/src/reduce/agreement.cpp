// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/agreement.hpp"

#include "worker_sdk/src/reduce/host_values.hpp"

#include <string.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <unordered_set>

namespace ddprun::reduce {

namespace {

constexpr std::size_t longest_complaint = 512;

/// Every rank's fingerprint, in the order of ranks.
std::vector<std::int64_t> gather(const ProcessGroup& group, std::int64_t mine) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
    all_gather_on_host(group, &mine, all.data(), 1);
    return all;
}

std::string from_rank_0(const ProcessGroup& group, const std::string& mine) {
    auto size = static_cast<std::int64_t>(mine.size());
    broadcast_on_host(group, &size, 1, 0);
    std::string text = mine;
    text.resize(static_cast<std::size_t>(size));
    broadcast_on_host(group, text.data(), text.size(), ElementType::uint8, 0);
    return text;
}

/// The error text of the lowest rank that has one.
std::string first_complaint(const ProcessGroup& group, const std::string& mine) {
    std::string here = mine;
    here.resize(longest_complaint);
    std::string all(longest_complaint * static_cast<std::size_t>(group.size()), '\0');
    all_gather_on_host(group, here.data(), all.data(), longest_complaint, ElementType::uint8);
    for (std::size_t start = 0; start < all.size(); start += longest_complaint) {
        const std::string one = all.substr(start, longest_complaint).c_str();
        if (!one.empty()) return one;
    }
    return {};
}

/// "parameter 3<tab>fc1.weight with 10 elements"
std::string line(const char* kind, std::size_t index, const std::string& name, std::size_t count) {
    return std::string{kind} + " " + std::to_string(index) + "\t" + name + " with " +
           std::to_string(count) + " elements";
}

struct Line {
    std::string subject;
    std::string text;

    bool operator==(const Line&) const = default;
};

/// Empty at the end of the text.
Line next_line(std::istringstream& text) {
    Line line;
    std::getline(text, line.subject, '\t');
    std::getline(text, line.text);
    return line;
}

/// Whether the first line comes before the second in a text: parameters, then buffers, then the
/// end.
bool is_before(const std::string& one, const std::string& other) {
    return other.empty() || (one.rfind("parameter", 0) == 0 && other.rfind("buffer", 0) == 0);
}

std::string difference(
    const std::string& subject, const std::string& here, const std::string& on_rank_0) {
    const bool is_plural = subject == "options";
    return (is_plural ? "the options are " : subject + " is ") + here + ", on rank 0 " +
           (is_plural ? "they are " : "it is ") + on_rank_0;
}

}  // namespace

std::int64_t fingerprint(const void* data, std::size_t bytes) {
    // Eight bytes at a time: the structure of FNV-1a, with a rotation so that high bits matter as
    // well.
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

std::string text_of(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    const Placement& placement,
    const std::string& more_options) {
    std::string text = "options\tfirst_bucket_bytes " + std::to_string(options.first_bucket_bytes) +
                       ", bucket_bytes " + std::to_string(options.bucket_bytes);
    if (options.reorder) text += ", reorder";
    if (options.find_unused) text += ", find_unused";
    if (options.uneven_inputs) text += ", uneven_inputs";
    if (options.check_order_every > 0)
        text += ", check_order_every " + std::to_string(options.check_order_every);
    if (options.hook) text += ", a hook";
    if (placement.gradients != nullptr) text += ", gradients of the caller's";
    text += more_options + '\n';
    for (std::size_t i = 0; i < parameters.size(); ++i)
        text += line("parameter", i, parameters[i].name, parameters[i].count) + '\n';
    for (std::size_t i = 0; i < placement.buffers.size(); ++i) {
        const auto& buffer = placement.buffers[i];
        text += line("buffer", i, buffer.name, buffer.count) + " of type " +
                std::to_string(static_cast<int>(buffer.type)) + '\n';
    }
    return text;
}

std::string first_difference(const std::string& here, const std::string& on_rank_0) {
    std::istringstream ours(here);
    std::istringstream theirs(on_rank_0);
    for (;;) {
        const auto our = next_line(ours);
        const auto their = next_line(theirs);
        if (our.subject.empty() && their.subject.empty()) return {};
        if (our == their) continue;
        if (our.subject == their.subject) return difference(our.subject, our.text, their.text);
        // One of the two lists is shorter.
        const bool is_ours = is_before(our.subject, their.subject);
        return is_ours ? difference(our.subject, our.text, "missing")
                       : difference(their.subject, "missing", their.text);
    }
}

void require_same_model(
    const ProcessGroup& group,
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    const Placement& placement,
    const std::string& more_options) {
    const auto here = text_of(parameters, options, placement, more_options);
    const auto all = gather(group, fingerprint(here.data(), here.size()));
    if (std::all_of(all.begin(), all.end(), [&](auto one) { return one == all.front(); })) return;

    auto complaint = first_difference(here, from_rank_0(group, here));
    if (!complaint.empty()) complaint = "rank " + std::to_string(group.rank()) + ": " + complaint;
    throw Mismatch("the ranks have different models: " + first_complaint(group, complaint));
}

void check_specs(const std::vector<ParameterSpec>& parameters) {
    std::unordered_set<std::string> names;
    std::size_t left = std::numeric_limits<std::size_t>::max() / sizeof(float) / 4;
    for (const auto& parameter : parameters) {
        if (parameter.name.empty() || parameter.name.find('\n') != std::string::npos)
            throw UsageError("a parameter needs a name of one line");
        if (!names.insert(parameter.name).second)
            throw UsageError("two parameters are named " + parameter.name);
        if (parameter.count == 0)
            throw UsageError("parameter " + parameter.name + " has no elements");
        if (parameter.count > left)
            throw UsageError("the parameters are more than memory can hold");
        left -= parameter.count;
    }
}

void require_same_values(
    const ProcessGroup& group,
    const std::vector<ParameterSpec>& parameters,
    const std::vector<std::int64_t>& mine) {
    std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(group.size()));
    all_gather_on_host(group, mine.data(), all.data(), mine.size());

    for (std::size_t i = 0; i < parameters.size(); ++i)
        for (int rank = 1; rank < group.size(); ++rank)
            if (all[static_cast<std::size_t>(rank) * mine.size() + i] != all[i])
                throw Mismatch(
                    "parameter " + parameters[i].name + " on rank " + std::to_string(rank) +
                    " differs from rank 0's");
}

void LaunchRecord::add(std::size_t bucket, std::size_t count) {
    ++launched_count_;
    const std::uint64_t words[]{hash_, bucket, count};
    hash_ = static_cast<std::uint64_t>(fingerprint(words, sizeof words));
}

void LaunchRecord::require_same(const ProcessGroup& group) const {
    const auto hashes = gather(group, static_cast<std::int64_t>(hash_));
    const auto counts = gather(group, launched_count_);
    for (std::size_t rank = 1; rank < hashes.size(); ++rank)
        if (hashes[rank] != hashes[0] || counts[rank] != counts[0])
            throw Mismatch(
                "rank " + std::to_string(rank) + " has launched " + std::to_string(counts[rank]) +
                " buckets, rank 0 " + std::to_string(counts[0]) +
                (counts[rank] == counts[0] ? ", but not the same ones in the same order" : ""));
}

}  // namespace ddprun::reduce
