// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/codec.hpp"
#include "rendezvous/control/text.hpp"
#include "tests/rules/tree.hpp"
#include "tests/unit/rendezvous/control/samples.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <sstream>
#include <string>

using namespace ddprun;
using namespace ddprun::control;
using Json = nlohmann::json;

namespace {

/// Field by field, with the `?` of those that may be missing.
using Fields = std::set<std::string>;
using Table = std::map<std::string, Fields>;

/// `| join | node_rank? | ...` and `| *node* | host | ...`, as the page has them.
Table table_of_page() {
    Table table;
    std::istringstream page{rules::text_of("rendezvous/control/FORMAT.md")};
    for (std::string line; std::getline(page, line);) {
        std::istringstream row{line};
        std::string bar, name, second_bar, field;
        row >> bar >> name >> second_bar >> field;
        const bool is_heading = name == "Message" || name == "Part" || name.starts_with("--");
        if (bar != "|" || second_bar != "|" || is_heading) continue;
        auto& fields = table[name];
        if (field != "|") fields.insert(field);
    }
    return table;
}

/// What a value of this field is a part of, where the page has a table for it.
std::string part_of(const std::string& field) {
    static const std::map<std::string, std::string> parts{
        {"node", "*node*"},
        {"settings", "*settings*"},
        {"failure", "*failure*"},
        {"worker", "*failure*"},
        {"end", "*end*"},
        {"first_cause", "*cause*"},
        {"neighbours", "*neighbour*"},
        {"consequences", "*consequence*"},
        {"join", "join"},
        {"assignment", "assignment"}};
    const auto found = parts.find(field);
    return found == parts.end() ? "" : found->second;
}

struct Found {
    /// Every field that was ever written.
    Table all;
};

void collect(const Json& object, const std::string& name, Found& found);

void collect_value(
    const std::string& field, const Json& value, const std::string& name, Found& found) {
    const auto part = part_of(field);
    if (value.is_object() && !part.empty()) return collect(value, part, found);
    if (value.is_array() && !part.empty() && !value.empty()) return collect(value[0], part, found);
    if (!value.is_object()) return;
    for (const auto& [inner, unused] : value.items())
        found.all[name].insert(field + "." + inner);
}

void collect(const Json& object, const std::string& name, Found& found) {
    found.all[name];
    for (const auto& [field, value] : object.items()) {
        if (field == "type") continue;
        found.all[name].insert(field);
        collect_value(field, value, name, found);
    }
}

Json body_of(const std::string& frame) {
    return Json::parse(frame.substr(4));
}

template <class Message>
bool is_accepted(const Json& body) {
    const auto text = body.dump();
    std::string frame(4, '\0');
    for (std::size_t i = 0; i < 4; ++i)
        frame[i] = static_cast<char>(text.size() >> (8 * (3 - i)) & 0xFFU);
    FrameDecoder<Message> decoder;
    decoder.append(frame + text);
    return decoder.next().has_value();
}

/// Removes each field in turn: only those with a `?` may be missing.
template <class Message>
void check_optional(
    const Json& whole, const Json::json_pointer& at, const std::string& name, const Table& page) {
    for (const auto& entry : whole.at(at).items()) {
        const auto& field = entry.key();
        const auto& value = entry.value();
        if (field == "type") continue;
        auto without = whole;
        without.at(at).erase(field);
        CAPTURE(name + "." + field);
        CHECK(is_accepted<Message>(without) == (page.at(name).count(field + "?") == 1));
        const auto part = part_of(field);
        if (!part.empty() && value.is_object())
            check_optional<Message>(whole, at / field, part, page);
    }
}

template <class Message>
void check_direction(const std::vector<Message>& samples, const Table& page, Found& found) {
    std::set<std::string> seen;
    for (const auto& message : samples) {
        const auto body = body_of(encode(message));
        const auto name = std::string{type_of(message)};
        collect(body, name, found);
        // The first sample of a type is the one that has everything.
        if (page.count(name) == 1 && seen.insert(name).second)
            check_optional<Message>(body, Json::json_pointer{}, name, page);
    }
}

Fields without_marks(const Fields& fields) {
    Fields plain;
    for (auto field : fields) {
        if (field.ends_with('?')) field.pop_back();
        plain.insert(field);
    }
    return plain;
}

std::string joined(const Fields& fields) {
    std::string text;
    for (const auto& field : fields)
        text += field + " ";
    return text;
}

}  // namespace

TEST_CASE("the page of the control protocol lists what the codec writes, no more and no less") {
    const auto page = table_of_page();
    Found found;
    check_direction(samples::agent_messages(), page, found);
    check_direction(samples::server_messages(), page, found);

    for (const auto& entry : found.all) {
        CAPTURE(entry.first);
        REQUIRE(page.count(entry.first) == 1);
        CHECK(joined(without_marks(page.at(entry.first))) == joined(entry.second));
    }
    for (const auto& entry : page) {
        CAPTURE(entry.first);
        CHECK(found.all.count(entry.first) == 1);
    }
}
