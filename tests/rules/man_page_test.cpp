// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/ctl_table.hpp"
#include "launcher/grammar/option_table.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

using namespace ddprun;

namespace {

const std::string page_path = "launcher/ddprun.1";
const std::string ctl_page_path = "launcher/ddprunctl.1";

/// Escapes text for troff: a dash must not become a hyphen, and a dot or quote at the start of a
/// line must not become a request.
std::string roff(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '`') continue;
        if (c == '-' || c == '\\') result += '\\';
        result += c;
    }
    if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
    return result;
}

std::string option_text(const launcher::OptionRow& row) {
    std::string text = ".TP\n.B ";
    if (row.letter != 0) text += roff(std::string{'-', row.letter}) + ", ";
    text += roff("--" + std::string{row.name});
    if (!row.is_flag()) text += " \\fI" + roff(row.value) + "\\fR";
    return text + "\n" + roff(row.help) + ".\n";
}

std::string page() {
    std::string text =
        ".TH DDPRUN 1 \"\" \"ddprun\" \"User Commands\"\n"
        ".SH NAME\nddprun \\- start a distributed training job and keep it alive\n"
        ".SH SYNOPSIS\n.B ddprun\n[\\fIOPTION\\fR]... \\fISCRIPT\\fR [\\fIARGUMENT\\fR]...\n"
        ".SH DESCRIPTION\n"
        "Starts \\fISCRIPT\\fR as the workers of a distributed job, with the command line and the\n"
        "environment of PyTorch's torchrun, and keeps the job alive. Everything after\n"
        "\\fISCRIPT\\fR is handed to it untouched; one \\fB\\-\\-\\fR before it is dropped.\n"
        ".SH OPTIONS\n"
        "Each may be spelled with dashes or underscores, as \\fB\\-\\-name\\fR \\fIvalue\\fR or\n"
        "\\fB\\-\\-name=\\fR\\fIvalue\\fR, and be shortened while it stays unambiguous. Given "
        "twice,\n"
        "the last one wins.\n";
    std::string_view group;
    for (const auto& row : launcher::option_table()) {
        if (row.group != group) text += ".SS " + roff(group = row.group) + "\n";
        text += option_text(row);
    }
    text +=
        ".SH ENVIRONMENT\n.TP\n.B PET_\\fINAME\\fR\n"
        "The default of the option of that name, in upper case with underscores, as in\n"
        "PET_NPROC_PER_NODE; for flags 1 or 0. Empty means unset. The command line wins. Not "
        "read for";
    bool is_first = true;
    for (const auto& row : launcher::option_table()) {
        if (row.reads_environment) continue;
        text += (is_first ? "\n" : ",\n") + roff("--" + std::string{row.name});
        is_first = false;
    }
    text +=
        ".\n.TP\n.B PYTHON_EXEC\nThe interpreter, unless \\-\\-python is given.\n"
        ".TP\n.B OMP_NUM_THREADS\nSet to 1 in each of several workers when it is unset.\n"
        ".TP\n.B LOGLEVEL\nddprun's own log, unless \\-\\-log\\-level is given.\n"
        ".SH EXIT STATUS\n"
        "A failed worker's own code, or 128 plus the signal that killed it, when that ended the\n"
        "job; else:\n";
    for (const auto& row : exit_codes::table)
        text += ".TP\n.B " + std::to_string(row.code) + "\n" + roff(row.meaning) + ".\n";
    return text +
           ".SH EXAMPLES\n.EX\n"
           "ddprun \\-\\-standalone \\-\\-nproc\\-per\\-node=4 train.py \\-\\-lr 0.1\n"
           "ddprun \\-\\-nnodes=2 \\-\\-rdzv\\-endpoint=node1:29400 \\-\\-nproc\\-per\\-node=8 "
           "train.py\n.EE\n";
}

std::string ctl_page() {
    std::string text =
        ".TH DDPRUNCTL 1 \"\" \"ddprun\" \"User Commands\"\n"
        ".SH NAME\nddprunctl \\- show and control the jobs that ddprun runs on this machine\n"
        ".SH SYNOPSIS\n.B ddprunctl\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
        ".SH DESCRIPTION\n"
        "Reaches the jobs of its user that have a node on this machine; root reaches those of\n"
        "all users. \\fIRUN_ID\\fR is the name of a job (\\-\\-rdzv\\-id), as \\fBps\\fR shows "
        "it.\n"
        "With \\-\\-rdzv\\-endpoint the rendezvous server there performs the command, from any\n"
        "machine that has the secret of the job.\n"
        ".SH COMMANDS\n";
    for (const auto& row : launcher::ctl::command_table()) {
        text += ".TP\n.B " + roff(row.name);
        if (!row.arguments.empty()) text += " \\fI" + roff(row.arguments) + "\\fR";
        text += "\n" + roff(row.help) + ".\n";
    }
    text += ".SH OPTIONS\n";
    for (const auto& row : launcher::ctl::ctl_option_table()) {
        text += ".TP\n.B " + roff("--" + std::string{row.name});
        if (!row.is_flag()) text += "=\\fI" + roff(row.value) + "\\fR";
        text += "\n" + roff(row.help);
        if (!row.commands.empty()) text += " (" + roff(row.commands) + ")";
        text += ".\n";
    }
    text += ".SH EXIT STATUS\n";
    for (const auto& row : launcher::ctl::exit_table())
        text += ".TP\n.B " + std::to_string(row.code) + "\n" + roff(row.meaning) + ".\n";
    return text +
           ".SH EXAMPLES\n.EX\n"
           "ddprunctl ps\n"
           "ddprunctl stop run17 \\-\\-grace=10\n"
           "ddprunctl signal run17 USR1 \\-\\-rank=3\n"
           "ddprunctl stop run17 \\-\\-rdzv\\-endpoint=node1 "
           "\\-\\-rdzv\\-secret\\-file=secret\n.EE\n"
           ".SH SEE ALSO\n.BR ddprun (1)\n";
}

void check_page(const std::string& path, const std::string& wanted) {
    if (std::getenv("DDPRUN_REWRITE") != nullptr)
        std::ofstream{DDPRUN_SOURCE_DIR "/" + path, std::ios::binary} << wanted;
    const auto text = rules::text_of(path);
    CHECK_FALSE(text.empty());
    CHECK_MESSAGE(
        text == wanted,
        path << " is stale: DDPRUN_REWRITE=1 ctest -R 'manual page' writes it again");
}

}  // namespace

TEST_CASE("the manual page is what the tables of options and exit codes say") {
    check_page(page_path, page());
}

TEST_CASE("the manual page of ddprunctl is what its tables say, and its page has each of them") {
    check_page(ctl_page_path, ctl_page());
    const auto page = rules::text_of("docs/ddprunctl.md");
    for (const auto& row : launcher::ctl::command_table())
        CHECK(page.find("| `" + std::string{row.name}) != std::string::npos);
    for (const auto& row : launcher::ctl::ctl_option_table())
        if (!row.commands.empty())
            CHECK(page.find("`--" + std::string{row.name}) != std::string::npos);
    for (const auto& row : launcher::ctl::exit_table())
        CHECK(
            page.find("| " + std::to_string(row.code) + " | " + std::string{row.meaning}) !=
            std::string::npos);
}
