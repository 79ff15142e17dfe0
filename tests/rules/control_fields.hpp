// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/command_fields.hpp"
#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/job_command_fields.hpp"
#include "rendezvous/control/text.hpp"

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// The fields of control messages, both from `fields` and from FORMAT.md.
namespace ddprun::rules {

/// By field, with a `?` after optional ones: its allowed values.
using FieldTable = std::map<std::string, std::string>;
/// By type of message ("join") or part ("*node*").
using MessageTable = std::map<std::string, FieldTable>;

/// The page's name for a part with its own rows; empty: its fields are listed with a prefix, such
/// as "nnodes.max".
template <class T>
inline constexpr const char* part_name = "";
template <>
inline constexpr const char* part_name<control::Node> = "*node*";
template <>
inline constexpr const char* part_name<control::Settings> = "*settings*";
template <>
inline constexpr const char* part_name<control::WorkerFailure> = "*failure*";
template <>
inline constexpr const char* part_name<control::WorkerEnd> = "*end*";
template <>
inline constexpr const char* part_name<control::Cause> = "*cause*";
template <>
inline constexpr const char* part_name<control::EndedWorker> = "*ended worker*";
template <>
inline constexpr const char* part_name<control::Neighbour> = "*neighbour*";
template <>
inline constexpr const char* part_name<control::StoreWait> = "*store wait*";
template <>
inline constexpr const char* part_name<control::StoreClients> = "*store clients*";
template <>
inline constexpr const char* part_name<control::StoreSocket> = "*store socket*";
template <>
inline constexpr const char* part_name<control::WorkProgress> = "*progress*";
template <>
inline constexpr const char* part_name<control::RankProgress> = "*rank progress*";
template <>
inline constexpr const char* part_name<control::Site> = "*site*";
template <>
inline constexpr const char* part_name<control::NodeSites> = "*node sites*";
template <>
inline constexpr const char* part_name<control::NodeProgress> = "*node progress*";
template <>
inline constexpr const char* part_name<control::Goodput> = "*goodput*";
template <>
inline constexpr const char* part_name<control::SavePoint> = "*save point*";
template <>
inline constexpr const char* part_name<control::JobSummary> = "*job summary*";
template <>
inline constexpr const char* part_name<control::NodeSummary> = "*node summary*";
template <>
inline constexpr const char* part_name<control::DrainedHost> = "*drained host*";
template <>
inline constexpr const char* part_name<control::KeptWorker> = "*kept worker*";
template <>
inline constexpr const char* part_name<control::StateSource> = "*state source*";
template <>
inline constexpr const char* part_name<control::VoterSet> = "*voter set*";
template <>
inline constexpr const char* part_name<control::VoterPlace> = "*voter*";

/// Lists the fields of one message or part, and of the parts inside.
class FieldLister {
public:
    static constexpr bool is_reader = false;

    FieldLister(MessageTable& table, std::string name, std::string prefix = {})
        : table_(table),
          name_(std::move(name)),
          prefix_(std::move(prefix)) {
        table_[name_];
    }

    template <class T, class Kind = control::Plain>
    void operator()(const char* field, const T&, const Kind& kind = {}) {
        table_[name_][prefix_ + field] = kind_of<T>(kind, prefix_ + field);
    }
    template <class T, class Kind = control::Plain>
    void optional(const char* field, const T&, const Kind& kind = {}) {
        auto text = kind_of<T>(kind, prefix_ + field);
        // The first enumerator is what is left out.
        if constexpr (control::Enumeration<T>) text.erase(0, text.find(' ') + 1);
        table_[name_][prefix_ + field + "?"] = text;
    }

private:
    template <class T>
    struct Held {
        using Type = T;
    };
    template <class T>
    struct Held<std::optional<T>> {
        using Type = T;
    };

    template <class T, class Kind>
    std::string kind_of(const Kind& kind, const std::string& field) {
        using Value = typename Held<T>::Type;
        if constexpr (std::is_same_v<Kind, control::Whole>) {
            return std::to_string(kind.least) + " to " + std::to_string(kind.most);
        } else if constexpr (std::is_same_v<Kind, control::Name>) {
            return kind.least_bytes == 0 ? "name" : "name, not empty";
        } else if constexpr (std::is_same_v<Kind, control::Text>) {
            return "text";
        } else if constexpr (!std::is_same_v<Kind, control::Plain>) {
            return "list of " + kind_of<typename Value::value_type>(kind.element, field);
        } else if constexpr (control::Enumeration<Value>) {
            std::string names;
            for (std::underlying_type_t<Value> i = 0; !name_of(Value{i}).empty(); ++i)
                names += (i == 0 ? "`" : " `") + std::string{name_of(Value{i})} + "`";
            return names;
        } else if constexpr (control::Part<Value>) {
            return kind_of_part<Value>(field);
        } else if constexpr (std::is_same_v<Value, bool>) {
            return "truth";
        } else if constexpr (std::is_same_v<Value, Duration>) {
            return "seconds";
        } else if constexpr (std::is_same_v<Value, Nonce>) {
            return "nonce";
        } else {
            static_assert(std::is_same_v<Value, std::uint64_t>);
            return "0 to 2^64-1";
        }
    }

    template <class T>
    std::string kind_of_part(const std::string& field) {
        // A message inside another one already has its own rows.
        if (!control::type_name<T>.empty()) return "*" + std::string{control::type_name<T>} + "*";
        const std::string name = part_name<T>;
        FieldLister part(table_, name.empty() ? name_ : name, name.empty() ? field + "." : "");
        const T value{};
        fields(part, value);
        return name.empty() ? "object" : name;
    }

    MessageTable& table_;
    std::string name_;
    std::string prefix_;
};

template <class Variant, std::size_t index = 0>
void list_messages(MessageTable& table) {
    if constexpr (index < std::variant_size_v<Variant>) {
        using Message = std::variant_alternative_t<index, Variant>;
        FieldLister lister(table, std::string{control::type_name<Message>});
        const Message message{};
        fields(lister, message);
        list_messages<Variant, index + 1>(table);
    }
}

/// All messages of both directions and their parts.
inline MessageTable control_messages() {
    MessageTable table;
    list_messages<control::AgentMessage>(table);
    list_messages<control::ServerMessage>(table);
    list_messages<control::Command>(table);
    list_messages<control::CommandReply>(table);
    return table;
}

}  // namespace ddprun::rules
