// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// One vocabulary for comments, texts, pages and test names. A string literal of one word is a key
// or a name and is not checked. Terms that also have an ordinary meaning (found, remains, land) are
// not listed.

namespace {

using namespace ddprun::rules;

struct Term {
    std::string_view words;  ///< separated by "|", in lower case
    std::string_view instead;
};
constexpr std::array terms{
    Term{
        "who|whom|whoever|whomever|nobody|somebody|everybody|anybody|someone|everyone|anyone",
        "the thing itself: the client, no node, each rank"},
    Term{"trouble|troubles", "error"},
    Term{"patience", "timeout, deadline"},
    Term{"founding|founder", "create"},
    Term{"meeting|meetings", "rendezvous"},
    Term{"surroundings", "environment"},
    Term{"mismatch watch", "desync detector"},
    Term{"death watch|overseer", "failure detector, hang watchdog"},
    Term{"take off|takes off", "enqueue"},
    Term{"border|borders", "ABI, edge"},
    Term{"tell|tells|told|telling", "report, notify, send, show"},
    Term{"farewell|parting", "finalize, linger"},
    Term{"quiet thread|quiet threads", "signal-masked thread"},
    Term{"quiet step|quiet steps", "no_sync step"},
    Term{"enroll|enrolls|enrolled|dismiss|dismisses|dismissed", "register, deregister, reject"},
    Term{"soundness", "valid flag"},
    Term{"give up|gives up|gave up|giving up", "times out, aborts, closes"},
    Term{"stand still|stands still|standing still|stood still", "is stopped, hangs"},
    Term{"vouch|vouches|vouched|vouching", "answer a probe"},
    Term{"disown|disowns|disowned|disowning", "confirm a suspect"},
    Term{"fence falls|fence fell|fallen", "self-fence; failed workers"},
    Term{"at hand", "current"},
    Term{"anew|goes on as another|go on as another", "again, a new incarnation"},
    Term{"twin|twins", "duplicate"},
    Term{"stranger|strangers", "pre-existing children, other peers"},
    Term{"consequence|consequences", "secondary failure"},
    Term{"first cause|culprit", "root cause"},
    Term{"our doing", "expected exit"},
    Term{"last words|own words", "tail of stderr, error message"},
};

/// "Who's there?" -> " who s there ".
std::string words_of(std::string_view text) {
    std::string words = " ";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_word = std::isalnum(byte) != 0 || c == '_' || byte >= 0x80;
        if (is_word)
            words += static_cast<char>(std::tolower(byte));
        else if (words.back() != ' ')
            words += ' ';
    }
    return words + ' ';
}

/// The text without the parts between two of `quote`.
std::string without_quotations(std::string_view text, char quote) {
    std::string rest;
    while (!text.empty()) {
        const auto begin = text.find(quote);
        const auto end = begin == text.npos ? begin : text.find(quote, begin + 1);
        rest += text.substr(0, end == text.npos ? end : begin);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    return rest;
}

/// The comment and the string literals of one line; `code` is the line without them.
std::vector<std::string> prose_of_code(std::string_view line, std::string_view code) {
    std::vector<std::string> prose(1);
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (code[i] == ' ')
            prose.back() += line[i];
        else if (!prose.back().empty())
            prose.emplace_back();
    }
    for (auto& piece : prose) {
        piece.erase(0, piece.find_first_not_of(' '));
        if (piece.starts_with('/') || piece.starts_with("* "))
            piece = without_quotations(without_quotations(piece, '"'), '`');
        else if (piece.find(' ') == std::string::npos)
            piece.clear();
    }
    return prose;
}

std::vector<std::string> prose_of_shell(std::string_view line) {
    const auto first = line.find_first_not_of(' ');
    if (first != line.npos && line[first] == '#') return {std::string{line}};
    std::vector<std::string> prose;
    for (auto begin = line.find('"'); begin != line.npos; begin = line.find('"', begin)) {
        const auto end = std::min(line.find('"', begin + 1), line.size());
        prose.emplace_back(line.substr(begin + 1, end - begin - 1));
        begin = std::min(end + 1, line.size());
    }
    return prose;
}

/// Each word or phrase between spaces, as it is searched for, and what to say instead.
std::vector<std::pair<std::string, std::string_view>> each_word() {
    std::vector<std::pair<std::string, std::string_view>> all;
    for (const auto& term : terms)
        for (const auto word : ddprun::split(term.words, '|'))
            all.emplace_back(" " + std::string{word} + " ", term.instead);
    return all;
}

/// NVIDIA's driver writes this to the kernel's log, and tests and pages quote it.
std::string without_driver_text(std::string text) {
    constexpr std::string_view quoted = "has fallen off the bus";
    for (auto at = text.find(quoted); at != text.npos; at = text.find(quoted))
        text.erase(at, quoted.size());
    return text;
}

/// "told (instead: report, ...)" for each term in the text.
std::vector<std::string> terms_in(std::string_view text) {
    static const auto all = each_word();
    std::vector<std::string> found;
    if (text.empty()) return found;
    const auto words = words_of(without_driver_text(std::string{text}));
    for (const auto& [word, instead] : all)
        if (words.find(word) != words.npos)
            found.push_back(
                word.substr(1, word.size() - 2) + " (instead: " + std::string{instead} + ")");
    return found;
}

/// "path:line: told (instead: report, ...)" for each term in the file's prose.
std::vector<std::string> findings(const std::string& path, const std::string& text) {
    const bool is_page = path.ends_with(".md");
    const bool is_shell = path.ends_with(".sh");
    const auto code = is_page || is_shell ? text : without_comments(text);
    const auto lines = ddprun::split(text, '\n');
    const auto code_lines = ddprun::split(code, '\n');
    std::vector<std::string> found;
    bool is_fenced = false;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        std::vector<std::string> prose;
        if (is_page && lines[i].starts_with("```"))
            is_fenced = !is_fenced;
        else if (is_page && !is_fenced)
            prose = {without_quotations(lines[i], '`')};
        else if (is_shell)
            prose = prose_of_shell(lines[i]);
        else if (!is_page)
            prose = prose_of_code(lines[i], code_lines[i]);
        for (const auto& piece : prose)
            for (const auto& term : terms_in(piece))
                found.push_back(path + ":" + std::to_string(i + 1) + ": " + term);
    }
    return found;
}

bool is_checked(const std::string& path) {
    constexpr std::array extensions{".cpp", ".hpp", ".c", ".h", ".cu", ".cuh", ".md", ".sh"};
    const auto extension = std::filesystem::path{path}.extension();
    return path != "tests/rules/language_test.cpp" &&
           std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

}  // namespace

TEST_CASE("comments, texts, pages and test names keep to the vocabulary") {
    const std::filesystem::path root = DDPRUN_SOURCE_DIR;
    std::vector<std::string> broken;
    for (auto entry = std::filesystem::recursive_directory_iterator{root};
         entry != std::filesystem::recursive_directory_iterator{};
         ++entry) {
        const auto path = entry->path().lexically_relative(root).string();
        if (entry->is_directory() && (path == "build" || path == "shared" || path == ".git"))
            entry.disable_recursion_pending();
        if (!entry->is_regular_file() || !is_checked(path)) continue;
        for (auto& finding : findings(path, text_of(path)))
            broken.push_back(std::move(finding));
    }
    std::sort(broken.begin(), broken.end());
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("the vocabulary is checked in prose, not in code, quotations and keys") {
    const auto count = [](const std::string& path, const std::string& text) {
        return findings(path, text).size();
    };
    CHECK(count("a.cpp", "int x;  // Who calls\n") == 1);
    CHECK(count("a.cpp", "/* nobody\n calls */\n") == 1);
    CHECK(count("a.cpp", "log(\"the peer tells\");\n") == 1);
    CHECK(count("a.cpp", "who(\"told\");  // \"told\" is a key, `who` a name\n") == 0);
    CHECK(count("a.md", "nobody\n```\nnobody\n```\nthe key `told`\n") == 1);
    CHECK(count("a.sh", "run nobody \"x is told\"  # who\n# who\n") == 2);
    CHECK(count("a.cpp", "f(\"GPU has fallen off the bus\");  // a fallen rank\n") == 1);
    const auto found = findings("a.cpp", "\n// It gives up.\n");
    REQUIRE(found.size() == 1);
    CHECK(found[0] == "a.cpp:2: gives up (instead: times out, aborts, closes)");
}
