// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/codec.hpp"
#include "rendezvous/control/text.hpp"
#include "tests/rules/control_fields.hpp"
#include "tests/rules/tree.hpp"
#include "tests/unit/rendezvous/control/samples.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::control;
using namespace ddprun::rules;
using Json = nlohmann::json;

namespace {

std::string replaced(std::string text, std::string_view piece, std::string_view with) {
    const auto at = text.find(piece);
    return at == std::string::npos ? text : text.replace(at, piece.size(), with);
}

/// The texts between the bars of a row, without surrounding spaces.
std::vector<std::string> cells_of(const std::string& row) {
    std::vector<std::string> cells;
    std::istringstream rest{row};
    std::string cell;
    std::getline(rest, cell, '|');
    while (std::getline(rest, cell, '|')) {
        const auto begin = cell.find_first_not_of(' ');
        cells.push_back(
            begin == std::string::npos
                ? ""
                : cell.substr(begin, cell.find_last_not_of(' ') - begin + 1));
    }
    return cells;
}

/// The page's short words for some kinds, in full.
std::string in_full(std::string kind, const std::string& cause_kinds) {
    if (kind == "round") return in_full("0 to 2^31-1", {});
    if (kind == "port") return "0 to 65535";
    if (kind == "a *cause* kind") return cause_kinds;
    kind = replaced(std::move(kind), "-2^31 ", "-2147483648 ");
    kind = replaced(std::move(kind), "2^31-1", "2147483647");
    kind = replaced(std::move(kind), "2^53", "9007199254740992");
    return replaced(std::move(kind), "2^32-1", "4294967295");
}

/// "| join | `node_rank`? | 0 to 65535 | ..." and "| *node* | `host` | name | ...".
MessageTable table_of_page() {
    MessageTable table;
    std::istringstream page{text_of("rendezvous/control/FORMAT.md")};
    for (std::string line; std::getline(page, line);) {
        if (!line.starts_with("| ")) continue;
        const auto cells = cells_of(line);
        REQUIRE_MESSAGE(cells.size() >= 3, line);
        if (cells[0] == "Message" || cells[0] == "Part") continue;
        auto& fields = table[cells[0]];
        auto name = cells[1];
        std::erase(name, '`');
        if (!name.empty()) fields[name] = cells[2];
    }
    for (auto& message : table)
        for (auto& field : message.second)
            field.second = in_full(field.second, table["*cause*"]["kind"]);
    return table;
}

std::string names_of(const FieldTable& fields) {
    std::string names;
    for (const auto& field : fields)
        names += field.first + " ";
    return names;
}

/// The table with the fields of a value of this kind; empty: there is none.
std::string part_of(const MessageTable& table, const std::string& kind) {
    const auto name = replaced(kind, "list of ", "");
    if (table.count(name) == 1) return name;
    const auto is_message = name.size() > 2 && name.front() == '*';
    return is_message ? name.substr(1, name.size() - 2) : "";
}

/// "nnodes.min?" -> /nnodes/min
Json::json_pointer pointer_to(std::string field) {
    if (field.ends_with('?')) field.pop_back();
    std::replace(field.begin(), field.end(), '.', '/');
    return Json::json_pointer{"/" + field};
}

/// The text between `begin` and the following `end`; empty without `begin`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
    const auto at = text.find(begin);
    if (at == std::string::npos) return {};
    return text.substr(at, text.find(end, at) - at);
}

/// Members that `fields` of their struct does not name, as "Ready::nproc". A struct without
/// `fields` is a part of another one, which names its members.
std::vector<std::string> forgotten_members() {
    const auto header = without_comments(
        text_of("rendezvous/control/terms.hpp") + text_of("rendezvous/control/causes.hpp") +
        text_of("rendezvous/control/message.hpp") + text_of("rendezvous/control/command.hpp") +
        text_of("rendezvous/control/job_command.hpp") +
        text_of("rendezvous/control/worker_order.hpp") +
        text_of("rendezvous/control/voter_set.hpp"));
    const auto definitions = without_comments(
        text_of("rendezvous/control/fields.hpp") +
        text_of("rendezvous/control/command_fields.hpp") +
        text_of("rendezvous/control/job_command_fields.hpp") +
        text_of("rendezvous/control/worker_order_fields.hpp") +
        text_of("rendezvous/control/voter_set_fields.hpp"));
    const std::regex declaration{R"(\n    [\w:]+(?:<[\w:<>]+>)? (\w+)(?: = [^;]*|\{[^;]*\})?;)"};
    const std::regex beginning{R"(struct (\w+) \{)"};
    std::vector<std::string> forgotten;
    for (std::sregex_iterator type{header.begin(), header.end(), beginning}, end; type != end;
         ++type) {
        const auto name = type->str(1);
        const auto own = between(definitions, "Like<Io, " + name + ">&", "\n}");
        const auto& named = own.empty() ? definitions : own;
        const auto body = between(header, type->str(0), "\n};");
        for (std::sregex_iterator member{body.begin(), body.end(), declaration}; member != end;
             ++member)
            if (!std::regex_search(named, std::regex{"\\." + member->str(1) + "\\b"}))
                forgotten.push_back(name + "::" + member->str(1));
    }
    return forgotten;
}

/// Checks that the object has everything that it can hold.
void check_whole(const Json& object, const std::string& name, const MessageTable& table) {
    for (const auto& entry : table.at(name)) {
        const auto& field = entry.first;
        CAPTURE(name + "." + field);
        REQUIRE(object.contains(pointer_to(field)));
        const auto& value = object.at(pointer_to(field));
        const auto part = part_of(table, entry.second);
        if (part.empty()) continue;
        REQUIRE_FALSE(value.empty());
        check_whole(value.is_array() ? value[0] : value, part, table);
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

/// Removes each field in turn: only fields with a `?` may be missing.
template <class Message>
void check_optional(
    const Json& whole,
    const Json::json_pointer& at,
    const std::string& name,
    const MessageTable& table) {
    for (const auto& entry : table.at(name)) {
        const auto& field = entry.first;
        auto without = whole;
        const auto place = at / pointer_to(field);
        without.at(place.parent_pointer()).erase(place.back());
        CAPTURE(name + "." + field);
        CHECK(is_accepted<Message>(without) == field.ends_with('?'));
        const auto part = part_of(table, entry.second);
        if (!part.empty() && whole.at(place).is_object())
            check_optional<Message>(whole, place, part, table);
    }
}

template <class Message>
void check_samples(const std::vector<Message>& samples, const MessageTable& table) {
    std::set<std::string> seen;
    for (const auto& message : samples) {
        const auto name = std::string{type_of(message)};
        // The first sample of a type is the complete one.
        if (!seen.insert(name).second) continue;
        const auto body = body_of(encode(message));
        check_whole(body, name, table);
        check_optional<Message>(body, Json::json_pointer{}, name, table);
    }
    CHECK(seen.size() == std::variant_size_v<Message>);
}

}  // namespace

TEST_CASE(
    "the page of the control protocol lists the fields of each message, no more and no less") {
    const auto page = table_of_page();
    const auto table = control_messages();
    for (const auto& entry : table) {
        CAPTURE(entry.first);
        REQUIRE(page.count(entry.first) == 1);
        const auto& rows = page.at(entry.first);
        CHECK(names_of(rows) == names_of(entry.second));
        for (const auto& field : entry.second) {
            CAPTURE(field.first);
            if (rows.count(field.first) == 1) CHECK(rows.at(field.first) == field.second);
        }
    }
    for (const auto& entry : page) {
        CAPTURE(entry.first);
        CHECK(table.count(entry.first) == 1);
    }
}

TEST_CASE("each member of a control message is named by its fields") {
    const auto forgotten = forgotten_members();
    CHECK_MESSAGE(forgotten.empty(), listed(forgotten));
}

TEST_CASE("a sample has every field of its message, and may lack those that the page marks") {
    const auto table = control_messages();
    check_samples(samples::agent_messages(), table);
    check_samples(samples::server_messages(), table);
    check_samples(samples::commands(), table);
    check_samples(samples::command_replies(), table);
}
