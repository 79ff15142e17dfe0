// SPDX-License-Identifier: Apache-2.0
#include "agent/health/xid_line.hpp"

#include "rendezvous/base/printable.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace ddprun::agent::health {
namespace {

constexpr std::string_view mark = "NVRM: Xid (";
constexpr int max_code = 9999;
/// The longest of the drivers' texts have about 200 bytes.
constexpr std::size_t max_text_bytes = 256;
/// The bits of the priority below the facility, which is 0 for the kernel's own messages.
constexpr int facility_unit = 8;

bool take(std::string_view& rest, std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
}

std::optional<int> take_number(std::string_view& rest) {
    int number = 0;
    const auto* end = rest.data() + rest.size();
    const auto [at, error] = std::from_chars(rest.data(), end, number);
    if (error != std::errc{} || number < 0) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(at - rest.data()));
    return number;
}

/// Takes the text before `separator`, and removes both; takes the whole text if there is none.
std::string_view take_until(std::string_view& rest, std::string_view separator) {
    const auto end = std::min(rest.find(separator), rest.size());
    const auto piece = rest.substr(0, end);
    rest.remove_prefix(std::min(end + separator.size(), rest.size()));
    return piece;
}

void skip_spaces(std::string_view& rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
}

/// The number of digits differs between drivers; a domain has at least four here.
std::optional<std::string> hex_field(std::string_view digits, std::size_t least, std::size_t most) {
    while (digits.size() > least && digits.front() == '0')
        digits.remove_prefix(1);
    if (digits.empty() || digits.size() > most) return std::nullopt;
    std::string text(least > digits.size() ? least - digits.size() : 0, '0');
    for (const char digit : digits) {
        const bool is_letter = (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
        if (!is_letter && (digit < '0' || digit > '9')) return std::nullopt;
        text += digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
    }
    return text;
}

/// Removes "pid=1234, name=python, " from the front. A pid of '<unknown>' is none.
std::optional<int> take_process(std::string_view& rest) {
    std::optional<int> pid;
    if (take(rest, "pid=")) {
        auto value = take_until(rest, ",");
        take(value, "'");
        pid = take_number(value);
        skip_spaces(rest);
    }
    if (take(rest, "name=")) {
        take_until(rest, ",");
        skip_spaces(rest);
    }
    return pid;
}

}  // namespace

std::optional<std::string> pci_address(std::string_view text) {
    take(text, "PCI:");
    const auto domain = hex_field(take_until(text, ":"), 4, 8);
    const auto bus = hex_field(take_until(text, ":"), 2, 2);
    const auto device = hex_field(take_until(text, "."), 2, 2);
    if (!domain || !bus || !device) return std::nullopt;
    return *domain + ":" + *bus + ":" + *device;
}

std::optional<XidLine> xid_line(std::string_view record) {
    record = take_until(record, "\n");
    const auto priority = take_number(record);
    if (!priority || *priority >= facility_unit || !take(record, ",")) return std::nullopt;
    const auto prefix_end = record.find(';');
    if (prefix_end == std::string_view::npos) return std::nullopt;
    record.remove_prefix(prefix_end + 1);
    if (!take(record, mark)) return std::nullopt;
    const auto place_end = record.find(')');
    if (place_end == std::string_view::npos) return std::nullopt;
    auto place = record.substr(0, place_end);
    record.remove_prefix(place_end + 1);
    // The name of a part of a GPU (MIG) follows the address: "PCI:0000:3b:00 GPU-I:05".
    auto gpu = pci_address(take_until(place, " "));
    if (!gpu || !take(record, ":")) return std::nullopt;
    skip_spaces(record);
    const auto code = take_number(record);
    if (!code || *code > max_code) return std::nullopt;
    take(record, ",");
    skip_spaces(record);
    const auto pid = take_process(record);
    record = record.substr(0, max_text_bytes);
    return XidLine{std::move(*gpu), *code, pid, printable_line(std::string{record})};
}

std::string describe(const XidLine& line) {
    const auto name = "GPU " + line.gpu + ", Xid " + std::to_string(line.code);
    return line.text.empty() ? name : name + ": " + line.text;
}

}  // namespace ddprun::agent::health
