// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun::rules;

namespace {

/// All builds compile several files together and most have a precompiled header, so a missing
/// include is found by no compiler until a file is added or moved. A name of `namespace std` is
/// declared by each of the headers in its row.
struct Row {
    std::string_view headers;
    std::string_view names;
};

const std::vector<Row> rows{
    {"algorithm",
     "find any_of all_of none_of find_if find_if_not sort stable_sort count count_if copy copy_if "
     "copy_n transform "
     "max_element min_element minmax_element stable_partition binary_search replace replace_if "
     "for_each fill fill_n "
     "equal lower_bound upper_bound reverse generate adjacent_find unique set_intersection "
     "partial_sort mismatch "
     "is_sorted clamp min max"},
    {"array", "array"},
    {"atomic", "atomic atomic_ref atomic_thread_fence"},
    {"bit", "bit_cast countr_zero endian"},
    {"bitset", "bitset"},
    {"cctype", "isalnum isalpha isdigit isgraph islower isspace tolower toupper"},
    {"charconv", "from_chars to_chars"},
    {"chrono", "chrono chrono_literals"},
    {"cmath", "ceil copysign fabs floor ilogb isfinite isnan ldexp llround pow signbit sqrt"},
    {"cmath cstdlib", "abs"},
    {"concepts", "integral invocable same_as"},
    {"condition_variable", "condition_variable"},
    {"csignal", "signal"},
    {"cstddef span string vector", "byte ptrdiff_t to_integer"},
    {"cstdint", "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t"},
    {"cstdio", "fclose fflush fopen fprintf fputs fwrite rename snprintf sscanf"},
    {"cstdlib", "abort exit free getenv malloc strtoll"},
    {"cstring", "memcmp memcpy memset strchr strerror strlen strrchr"},
    {"ctime", "strftime time time_t tm"},
    {"deque", "deque"},
    {"exception",
     "current_exception exception exception_ptr rethrow_exception set_terminate terminate "
     "uncaught_exceptions"},
    {"exception new", "bad_alloc"},
    {"filesystem", "filesystem"},
    {"fstream", "ifstream ofstream"},
    {"functional", "function"},
    {"functional map set", "equal_to greater hash identity less plus"},
    {"future", "future future_error future_status promise"},
    {"initializer_list string vector", "initializer_list"},
    {"iostream", "cerr cin cout"},
    {"iterator map string vector",
     "back_inserter begin end istreambuf_iterator make_move_iterator next prev"},
    {"limits", "numeric_limits"},
    {"list", "list"},
    {"map", "map multimap"},
    {"memory",
     "addressof enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr"},
    {"mutex", "call_once lock_guard mutex once_flag scoped_lock try_to_lock unique_lock"},
    {"new", "nothrow set_new_handler"},
    {"numeric", "accumulate iota partial_sum"},
    {"optional", "make_optional nullopt optional"},
    {"random",
     "mt19937 mt19937_64 random_device seed_seq uniform_int_distribution "
     "uniform_real_distribution"},
    {"set", "multiset set"},
    {"span", "as_bytes as_writable_bytes span"},
    {"sstream", "istringstream ostringstream stringstream"},
    {"stdexcept", "invalid_argument logic_error runtime_error"},
    {"string", "getline stoi stoll stoul string to_string"},
    {"string string_view", "string_literals string_view string_view_literals"},
    {"charconv filesystem system_error", "errc error_code generic_category system_error"},
    {"thread", "this_thread thread"},
    {"tuple", "apply tuple"},
    {"array functional map tuple utility", "ignore tie tuple_size_v"},
    {"concepts type_traits",
     "conditional_t decay_t false_type is_enum_v is_integral_v is_same_v is_void_v make_unsigned_t "
     "remove_cvref_t "
     "true_type underlying_type_t"},
    {"unordered_map", "unordered_map"},
    {"unordered_set", "unordered_set"},
    {"utility", "as_const exchange index_sequence make_index_sequence"},
    {"algorithm array functional map memory optional set string tuple utility variant vector",
     "declval forward move pair swap"},
    {"variant",
     "get_if holds_alternative monostate variant variant_alternative_t variant_size_v visit"},
    {"vector", "vector"},
};

std::set<std::string> words_of(std::string_view text) {
    std::istringstream stream{std::string{text}};
    std::set<std::string> words;
    for (std::string word; stream >> word;)
        words.insert(word);
    return words;
}

using Headers = std::set<std::string>;

std::map<std::string, Headers> headers_of_names() {
    std::map<std::string, Headers> result;
    for (const auto& row : rows)
        for (const auto& name : words_of(row.names))
            result[name] = words_of(row.headers);
    return result;
}

bool is_part_of_name(char character) {
    return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

/// The names after each "std::".
std::set<std::string> standard_names(std::string_view code) {
    constexpr std::string_view prefix = "std::";
    std::set<std::string> names;
    for (auto at = code.find(prefix); at != code.npos; at = code.find(prefix, at + 1)) {
        if (at > 0 && (is_part_of_name(code[at - 1]) || code[at - 1] == ':')) continue;
        const auto begin = code.begin() + static_cast<std::ptrdiff_t>(at + prefix.size());
        names.emplace(begin, std::find_if_not(begin, code.end(), is_part_of_name));
    }
    return names;
}

/// What the files of the tree include, directly and through other files of it.
class Includes {
public:
    explicit Includes(const std::vector<SourceFile>& files) {
        for (const auto& file : files)
            files_.emplace(file.path, &file);
    }

    /// Without brackets, headers that are no files of the tree alone.
    Headers of(const SourceFile& file) const {
        Headers headers;
        std::set<std::string> visited;
        collect(file, headers, visited);
        return headers;
    }

private:
    void collect(const SourceFile& file, Headers& headers, std::set<std::string>& visited) const {
        if (!visited.insert(file.path).second) return;
        for (const auto& operand : file.includes()) {
            const auto name = operand.substr(1, operand.size() - 2);
            if (const auto* included = find(file, name))
                collect(*included, headers, visited);
            else
                headers.insert(name);
        }
    }

    const SourceFile* find(const SourceFile& from, const std::string& name) const {
        const auto folder = from.path.substr(0, from.path.rfind('/') + 1);
        for (const auto& path : {name, "worker_sdk/include/" + name, folder + name})
            if (const auto found = files_.find(path); found != files_.end()) return found->second;
        return nullptr;
    }

    std::map<std::string, const SourceFile*> files_;
};

bool has_one_of(const Headers& accepted, const Headers& included) {
    return std::any_of(accepted.begin(), accepted.end(), [&](const auto& header) {
        return included.count(header) != 0;
    });
}

}  // namespace

TEST_CASE("each file includes the standard library's headers of the names that it uses") {
    const auto files =
        sources({"launcher", "rendezvous", "agent", "worker_sdk", "tests", "examples"});
    const Includes includes(files);
    const auto accepted = headers_of_names();
    std::vector<std::string> broken;
    for (const auto& file : files) {
        const auto included = includes.of(file);
        for (const auto& name : standard_names(file.code))
            if (const auto headers = accepted.find(name);
                headers != accepted.end() && !has_one_of(headers->second, included))
                broken.push_back(file.path + ": std::" + name);
        if (file.uses_of("asio").empty()) continue;
        if (std::none_of(included.begin(), included.end(), [](const auto& header) {
                return header.starts_with("boost/");
            }))
            broken.push_back(file.path + ": asio");
    }
    CHECK_MESSAGE(broken.empty(), listed(broken));
}
