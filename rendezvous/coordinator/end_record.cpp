// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/end_record.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/codec.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {

control::JobResult without_text(control::JobResult result) {
    if (!result.root_cause || !result.root_cause->worker) return result;
    auto& worker = *result.root_cause->worker;
    worker.message.clear();
    worker.why.clear();
    worker.error_file.clear();
    worker.log_file.clear();
    worker.details.clear();
    worker.from_error_file = {};
    return result;
}

void EndRecord::add(std::vector<std::string> incarnations, control::JobResult result) {
    if (ends_.size() >= most_ends) ends_.erase(ends_.begin());
    ends_.push_back({std::move(incarnations), without_text(std::move(result))});
}

const control::JobResult* EndRecord::find(const std::string& incarnation) const {
    const auto found = std::find_if(ends_.rbegin(), ends_.rend(), [&](const End& end) {
        const auto& names = end.incarnations;
        return std::find(names.begin(), names.end(), incarnation) != names.end();
    });
    return found == ends_.rend() ? nullptr : &found->result;
}

std::string EndRecord::encode(const End& end) {
    std::string bytes;
    for (const auto& name : end.incarnations) {
        control::Welcome welcome;
        welcome.incarnation = name;
        bytes += control::encode(control::ServerMessage{std::move(welcome)});
    }
    return bytes + control::encode(control::ServerMessage{end.result});
}

std::string EndRecord::encode() const {
    std::string bytes;
    for (auto end = ends_.rbegin(); end != ends_.rend(); ++end) {
        const auto text = encode(*end);
        // One end with every field at its limit is shorter than that.
        if (!bytes.empty() && bytes.size() + text.size() > limits::max_end_record_bytes) break;
        bytes.insert(0, text);
    }
    return bytes;
}

EndRecord EndRecord::decode(const std::string& bytes) {
    EndRecord record;
    control::ServerMessageDecoder decoder;
    decoder.append(bytes);
    std::vector<std::string> names;
    for (;;) {
        auto message = decoder.next();
        if (!message || !*message) return record;
        if (auto* welcome = std::get_if<control::Welcome>(&**message))
            names.push_back(std::move(welcome->incarnation));
        else if (auto* result = std::get_if<control::JobResult>(&**message))
            record.add(std::exchange(names, {}), std::move(*result));
    }
}

}  // namespace ddprun::coordinator
