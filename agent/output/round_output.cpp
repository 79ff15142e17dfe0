// SPDX-License-Identifier: Apache-2.0
#include "agent/output/round_output.hpp"

#include "agent/output/log_file.hpp"
#include "agent/process/spawn.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::agent {
namespace {

/// Replaces the link atomically: a reader sees the old link or the new one. A folder with that name
/// is not replaced.
void point_latest(const std::string& folder, const std::string& target, const std::string& nonce) {
    const auto fresh = folder + "/.latest-" + nonce;
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    std::filesystem::create_symlink(target, fresh, failed);
    if (!failed) std::filesystem::rename(fresh, folder + "/latest", failed);
    if (!failed) return;
    std::error_code ignored;
    std::filesystem::remove(fresh, ignored);
    log::debug("log.not_linked", {{"path", folder + "/latest"}, {"reason", failed.message()}});
}

}  // namespace

bool is_at_terminal(const WorkerSpec& spec, Stream stream, int rank) {
    const auto& attachment = spec.attachment;
    return attachment && attachment->has_terminal && attachment->rank == rank &&
           ::isatty(stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

int WorkerOutput::worker_end(Stream stream) const {
    const auto& relay = stream == Stream::out ? out_ : err_;
    return relay ? relay->worker_end() : SpawnSpec::inherit;
}

void WorkerOutput::close_worker_ends() {
    if (out_) out_->close_worker_end();
    if (err_) err_->close_worker_end();
}

void WorkerOutput::resume() {
    if (out_) out_->resume();
    if (err_) err_->resume();
}

void WorkerOutput::finish() {
    if (out_) out_->finish();
    if (err_) err_->finish();
}

std::string WorkerOutput::stderr_tail() const {
    return err_ ? err_->tail() : std::string{};
}

RoundOutput::RoundOutput(
    boost::asio::io_context& io,
    Writer& writer,
    const OutputPlan& plan,
    const WorkerSpec& spec,
    const RoundPlan& round,
    StreamRelay::Observer on_progress_output)
    : io_(io),
      writer_(writer),
      plan_(plan),
      spec_(spec),
      round_(round),
      on_progress_output_(std::move(on_progress_output)),
      is_on_terminal_(::isatty(STDERR_FILENO) == 1) {
    if (round_.logs.is_none()) return;
    if (!round_.latest_logs.empty())
        writer_.run(
            [folder = plan.log_dir,
             target = round_.latest_logs,
             nonce = round_.nonce.to_short_string()] { point_latest(folder, target, nonce); });
    if (!plan.out_filters.empty())
        filtered_out_ = open_file(round_.logs.filtered_file(Stream::out));
    if (!plan.err_filters.empty())
        filtered_err_ = open_file(round_.logs.filtered_file(Stream::err));
}

RoundOutput::~RoundOutput() {
    // Closing may block, so the writer's thread releases them last.
    writer_.run([out = std::move(filtered_out_), err = std::move(filtered_err_)] {});
}

std::shared_ptr<LogFile> RoundOutput::open_file(std::string path) {
    auto file = std::make_shared<LogFile>(
        std::move(path), LogFile::Bounds{plan_.max_file_bytes, plan_.kept_files});
    writer_.run([file] { file->open(); });
    return file;
}

WorkerOutput RoundOutput::open(int local_rank) {
    WorkerOutput output;
    output.out_ = relay(Stream::out, local_rank);
    output.err_ = relay(Stream::err, local_rank);
    return output;
}

void RoundOutput::redirect(int local_rank, WorkerOutput& output) {
    for (const auto stream : {Stream::out, Stream::err}) {
        auto& relay = stream == Stream::out ? output.out_ : output.err_;
        if (!relay) continue;
        const auto route = route_of(plan_, stream, local_rank, rank_of(local_rank));
        relay->redirect(sink(stream, local_rank, route), observer(stream, local_rank));
    }
}

std::optional<StreamRelay> RoundOutput::relay(Stream stream, int local_rank) {
    const int rank = rank_of(local_rank);
    const auto route = route_of(plan_, stream, local_rank, rank);
    if (has_agents_stream(stream, local_rank, route)) return std::nullopt;
    auto relay = StreamRelay::open(
        io_, writer_, sink(stream, local_rank, route), observer(stream, local_rank));
    if (relay) return std::move(*relay);
    // The worker then writes to the agent's stream directly; files and the report lack that output.
    log::warning("output.inherited", {{"rank", rank}, {"reason", relay.error().describe()}});
    return std::nullopt;
}

bool RoundOutput::has_agents_stream(Stream stream, int local_rank, const StreamRoute& route) const {
    if (is_at_terminal(spec_, stream, rank_of(local_rank))) return true;
    // Unless stderr is a terminal, it passes through the agent, so that the report can show its
    // last lines.
    const bool is_in_report = stream == Stream::err && !is_on_terminal_;
    return route.is_inherited() && !is_in_report && !may_have_steps(stream, local_rank);
}

/// Rank 0 is the first worker of its node, and a worker that is kept may become it.
bool RoundOutput::may_have_steps(Stream stream, int local_rank) const {
    return stream == Stream::out && local_rank == 0 && !plan_.progress_pattern.empty();
}

StreamRelay::Observer RoundOutput::observer(Stream stream, int local_rank) const {
    const bool has_steps = may_have_steps(stream, local_rank) && rank_of(local_rank) == 0;
    return has_steps ? on_progress_output_ : StreamRelay::Observer{};
}

std::shared_ptr<StreamSink> RoundOutput::sink(
    Stream stream, int local_rank, const StreamRoute& route) {
    const int rank = rank_of(local_rank);
    const bool is_err = stream == Stream::err;
    StreamSink::Targets targets;
    if (route.to_console) targets.console = is_err ? STDERR_FILENO : STDOUT_FILENO;
    if (route.to_file)
        targets.file = open_file(round_.logs.file_of_worker(stream, local_rank, rank));
    if (route.is_filtered) {
        targets.filtered_file = is_err ? filtered_err_ : filtered_out_;
        targets.filters = plan_.filters(stream);
    }
    return std::make_shared<StreamSink>(
        writer_.queue(),
        writer_.console(),
        std::move(targets),
        format(stream, local_rank, route),
        line_timeout(stream));
}

StreamSink::Format RoundOutput::format(
    Stream stream, int local_rank, const StreamRoute& route) const {
    if (!route.is_formatted) return StreamSink::Raw{};
    const int rank = rank_of(local_rank);
    if (plan_.format == LogFormat::json)
        return JsonLine{
            {round_.run_id,
             round_.assignment.round,
             round_.host,
             rank,
             stream == Stream::out ? "stdout" : "stderr"}};
    return LinePrefix{plan_.prefix, {spec_.role, local_rank, rank, round_.host}};
}

/// On a terminal the user may be reading an unfinished line. With a single worker no other output
/// can mix with it.
Duration RoundOutput::line_timeout(Stream stream) const {
    const bool is_for_eyes =
        ::isatty(stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO) == 1 || spec_.nproc == 1;
    return plan_.format == LogFormat::text && is_for_eyes ? limits::prompt_timeout
                                                          : limits::unfinished_line_timeout;
}

}  // namespace ddprun::agent
