// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/completion.hpp"

#include "launcher/grammar/option_table.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace ddprun::launcher {
namespace {

/// The literal words of a value: "c10d|static" -> {"c10d", "static"}. Placeholders (N, PATH) are
/// not offered.
std::vector<std::string> value_words(std::string_view value) {
    std::vector<std::string> words;
    while (!value.empty()) {
        const auto bar = value.find('|');
        const auto word = value.substr(0, bar);
        const bool is_literal = std::all_of(word.begin(), word.end(), [](unsigned char c) {
            return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
        });
        if (is_literal) words.emplace_back(word);
        value = bar == std::string_view::npos ? std::string_view{} : value.substr(bar + 1);
    }
    return words;
}

bool names_path(const OptionRow& row) {
    return row.value == "PATH" || row.value == "DIR";
}

std::string spaced(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

/// The text escaped for a shell's single quotes.
std::string single_quoted(std::string_view text) {
    std::string result;
    for (const char c : text)
        result += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return result;
}

std::string case_spellings(const OptionRow& row) {
    auto text = "--" + std::string{row.name};
    if (row.letter != 0) text += std::string{"|-"} + row.letter;
    return text;
}

/// The words after the script belong to the script: file names are completed, as without any
/// completion.
std::string bash_script() {
    std::string all;
    std::string with_value;
    std::string cases;
    for (const auto& row : option_table()) {
        all += (all.empty() ? "--" : " --") + std::string{row.name};
        if (row.is_flag()) continue;
        with_value += (with_value.empty() ? "" : "|") + case_spellings(row);
        const auto words = value_words(row.value);
        if (!words.empty())
            cases += "        " + case_spellings(row) + ") COMPREPLY=($(compgen -W '" +
                     spaced(words) + "' -- \"$word\")); return ;;\n";
    }
    return "# bash completion for ddprun: source it, or save it as\n"
           "# ~/.local/share/bash-completion/completions/ddprun\n"
           "_ddprun() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} i=1\n"
           "    # '=' is a word of its own here.\n"
           "    if [[ $word == = ]]; then word=; fi\n"
           "    if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    while ((i < COMP_CWORD)); do\n"
           "        case ${COMP_WORDS[i]} in\n"
           "        --) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
           "        " +
           with_value +
           ")\n"
           "            ((i++))\n"
           "            if [[ ${COMP_WORDS[i]} == = ]]; then ((i++)); fi ;;\n"
           "        -*|=) ;;\n"
           "        *) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
           "        esac\n"
           "        ((i++))\n"
           "    done\n"
           "    if [[ $word != -* ]]; then\n"
           "        case $before in\n" +
           cases +
           "        esac\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    COMPREPLY=($(compgen -W '" +
           all +
           "' -- \"$word\"))\n"
           "}\n"
           "complete -o filenames -F _ddprun ddprun\n";
}

std::string zsh_script() {
    std::string text =
        "#compdef ddprun\n"
        "# zsh completion for ddprun: save it as _ddprun in a folder of $fpath, or source it\n"
        "# after compinit.\n"
        "_ddprun() {\n"
        "    _arguments -S \\\n";
    const auto escaped = [](std::string_view help) {
        std::string result;
        for (const char c : help) {
            if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
            result += c;
        }
        return single_quoted(result);
    };
    const auto add = [&](const std::string& spelling, const OptionRow& row) {
        text += "        '" + spelling;
        if (!row.is_flag()) text += spelling.starts_with("--") ? "=" : "+";
        text += "[" + escaped(row.help) + "]";
        const auto words = value_words(row.value);
        if (!row.is_flag()) text += ":" + escaped(row.value) + ":";
        if (names_path(row)) text += "_files";
        if (!words.empty()) text += "(" + spaced(words) + ")";
        text += "' \\\n";
    };
    for (const auto& row : option_table()) {
        add("--" + std::string{row.name}, row);
        if (row.letter != 0) add(std::string{'-', row.letter}, row);
    }
    return text +
           "        '1:script:_files' \\\n"
           "        '*::arguments:_files'\n"
           "}\n"
           "if [ \"$funcstack[1]\" = _ddprun ]; then _ddprun \"$@\"; else compdef _ddprun ddprun; "
           "fi\n";
}

std::string fish_script() {
    std::string text =
        "# fish completion for ddprun: save it as ~/.config/fish/completions/ddprun.fish\n";
    for (const auto& row : option_table()) {
        text += "complete -c ddprun -l " + std::string{row.name};
        if (row.letter != 0) text += std::string{" -s "} + row.letter;
        const auto words = value_words(row.value);
        if (!row.is_flag()) text += names_path(row) ? " -r -F" : " -x";
        if (!words.empty()) text += " -a '" + spaced(words) + "'";
        text += " -d '" + single_quoted(row.help) + "'\n";
    }
    return text;
}

/// `p/*/f/` last: files, for the script and what comes after it.
std::string tcsh_script() {
    std::string all;
    std::string values;
    for (const auto& row : option_table()) {
        all += (all.empty() ? "" : " ") + std::string{row.name};
        const auto words = value_words(row.value);
        const auto offered = names_path(row) ? "f" : "(" + spaced(words) + ")";
        if (words.empty() && !names_path(row)) continue;
        values += "    'c/--" + std::string{row.name} + "=/" + offered + "/' 'n/--" +
                  std::string{row.name} + "/" + offered + "/' \\\n";
    }
    return "# tcsh completion for ddprun: source it\n"
           "complete ddprun \\\n" +
           values + "    'c/--/(" + all + ")/' \\\n    'p/*/f/'\n";
}

}  // namespace

std::optional<std::string> completion_script(std::string_view shell) {
    if (shell == "bash") return bash_script();
    if (shell == "zsh") return zsh_script();
    if (shell == "fish") return fish_script();
    if (shell == "tcsh") return tcsh_script();
    return std::nullopt;
}

}  // namespace ddprun::launcher
