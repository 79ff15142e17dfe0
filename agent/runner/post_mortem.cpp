// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/post_mortem.hpp"

#include "agent/runner/machine_watch.hpp"
#include "agent/runner/replace_file.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"

#include <unistd.h>

#include <ctime>
#include <system_error>
#include <utility>

namespace ddprun::agent {
std::int64_t unix_time_now() {
    return static_cast<std::int64_t>(std::time(nullptr));
}

PostMortem::PostMortem(boost::asio::io_context& agent)
    : machine_(std::make_shared<MachineWatch>()),
      thread_(agent) {}

std::function<void()> PostMortem::beginning() const {
    return [machine = machine_] { machine->begin(); };
}

void PostMortem::examine(Death death, OnFound on_found) {
    const auto now = unix_time_now();
    thread_.post(
        [machine = machine_, death = std::move(death), on_found = std::move(on_found), now]()
            -> BlockingThread::Answer {
            Finding finding;
            const auto facts = machine->look(death.pid);
            finding.cause = cause_in_words(death.end, facts);
            auto text = read_file(death.error_file, limits::max_error_file_bytes + 1);
            if (text) finding.report = parse_error_file(*text);
            if (finding.report) finding.original = std::move(*text);
            if (text && !death.keeps_error_file) ::unlink(death.error_file.c_str());
            finding.unix_time = finding.report ? finding.report->unix_time.value_or(now) : now;
            return [on_found, finding = std::move(finding)]() mutable {
                on_found(std::move(finding));
            };
        });
}

void PostMortem::remove(std::vector<std::string> paths) {
    thread_.post([paths = std::move(paths)]() -> BlockingThread::Answer {
        for (const auto& path : paths)
            ::unlink(path.c_str());
        return {};
    });
}

void PostMortem::write(std::string path, std::string text) {
    thread_.post([path = std::move(path), text = std::move(text)]() -> BlockingThread::Answer {
        const int problem = replace_file(path, text);
        if (problem != 0)
            log::warning(
                "report.not_written",
                {{"path", path}, {"reason", std::generic_category().message(problem)}});
        return {};
    });
}

}  // namespace ddprun::agent
