// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/bytes.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::test {

/// The bytes that one client and one store exchange, from tests/interop/conversations/*.hex:
///
///   # a comment names the next step
///   > 0d 92 10 00 00     the client sends
///   < 92 10 00 00        and the server answers
///   <keys 05 00 ...      the same for LIST_KEYS, whose keys come in any order
///   closed               the server closes the connection
struct Conversation {
    struct Step {
        std::string name;
        std::string sent;
        std::string answered;
        bool is_in_any_order = false;
    };

    std::string name;
    std::vector<Step> steps;
    bool is_closed_by_server = false;

    std::string all_sent() const {
        std::string bytes;
        for (const auto& step : steps)
            bytes += step.sent;
        return bytes;
    }
    std::string all_answered() const {
        std::string bytes;
        for (const auto& step : steps)
            bytes += step.answered;
        return bytes;
    }
};

inline Conversation read_conversation(const std::filesystem::path& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path.string());
    Conversation conversation{path.stem().string(), {}, false};
    std::string line, comment;
    while (std::getline(file, line)) {
        const auto rest = [&](std::size_t from) { return from_hex(line.substr(from)); };
        if (line.rfind("# ", 0) == 0) {
            comment = line.substr(2);
        } else if (line.rfind("> ", 0) == 0) {
            conversation.steps.push_back({comment, rest(1), {}});
        } else if (line.rfind("<keys ", 0) == 0) {
            conversation.steps.back().answered = rest(5);
            conversation.steps.back().is_in_any_order = true;
        } else if (line.rfind("< ", 0) == 0) {
            conversation.steps.back().answered += rest(1);
        } else if (line == "closed") {
            conversation.is_closed_by_server = true;
        } else if (!line.empty()) {
            throw std::runtime_error(path.string() + ": " + line);
        }
    }
    return conversation;
}

/// All of them, in the order of their names.
inline std::vector<Conversation> read_conversations(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".hex") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<Conversation> conversations;
    for (const auto& path : paths)
        conversations.push_back(read_conversation(path));
    return conversations;
}

/// For steps whose order is not defined.
inline std::string sorted(std::string bytes) {
    std::sort(bytes.begin(), bytes.end());
    return bytes;
}

/// Whether these bytes are the recorded answers, one after the other.
inline bool are_answers(const Conversation& conversation, const std::string& answered) {
    std::size_t position = 0;
    for (const auto& step : conversation.steps) {
        if (position > answered.size()) return false;
        const auto answer = answered.substr(position, step.answered.size());
        if (step.is_in_any_order ? sorted(answer) != sorted(step.answered)
                                 : answer != step.answered)
            return false;
        position += step.answered.size();
    }
    return position == answered.size();
}

}  // namespace ddprun::test
