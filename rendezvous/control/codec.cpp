// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/codec.hpp"

#include "rendezvous/base/json_text.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/error.hpp"
#include "rendezvous/control/json_writer.hpp"
#include "rendezvous/control/text.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <limits>

namespace ddprun::control {
namespace codec {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t biggest_int = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t biggest_count = 1'000'000;
constexpr double longest_seconds = 10 * 365.25 * 86'400;
constexpr std::int64_t biggest_signal = 64;
constexpr std::int64_t latest_unix_time = 253'402'300'799;
constexpr std::int64_t biggest_exit_code = 255;
constexpr std::size_t most_neighbours = 16;
constexpr std::size_t most_list_elements = 64;

// ---- writing ------------------------------------------------------------------------------------

void write(JsonWriter& out, const Node& node) {
    out.name("nonce", node.nonce.to_string());
    out.name("host", node.host);
    out.integer("pid", node.pid);
    out.integer("user", node.user);
}

void write(JsonWriter& out, const Settings& settings) {
    out.seconds("join_timeout", settings.join_timeout);
    out.seconds("last_call_timeout", settings.last_call_timeout);
    out.seconds("lease", settings.lease);
    out.seconds("grace", settings.grace);
    out.name("late_nodes", name_of(settings.late_nodes));
    out.integer("max_losses", settings.max_losses);
    out.truth("static", settings.is_static);
    out.seconds("restart_delay", settings.restart.shortest_delay);
    out.seconds("longest_restart_delay", settings.restart.longest_delay);
    out.seconds("restart_refill", settings.restart.refill_after);
    out.list(
        "no_restart_on", settings.restart.final_codes, [&](int code) { out.integer("", code); });
}

void write(JsonWriter& out, const WorkerEnd& end) {
    out.name("kind", name_of(end.kind));
    out.integer("value", end.value);
    out.truth("core_dumped", end.core_dumped);
}

void write(JsonWriter& out, const WorkerFailure& failure) {
    out.integer("rank", failure.rank);
    out.integer("local_rank", failure.local_rank);
    out.integer("pid", failure.pid);
    out.object("end", [&] { write(out, failure.end); });
    out.truth("is_consequence", failure.is_consequence);
    if (failure.unix_time) out.integer("unix_time", *failure.unix_time);
    out.text("message", failure.message);
    if (!failure.why.empty()) out.text("why", failure.why);
    if (!failure.error_file.empty()) out.text("error_file", failure.error_file);
    if (!failure.log_file.empty()) out.text("log_file", failure.log_file);
    out.text("details", failure.details);
    if (failure.own_words != WorkerFailure::OwnWords::none)
        out.name("own_words", name_of(failure.own_words));
}

void write(JsonWriter& out, const Cause& cause) {
    out.name("kind", name_of(cause.kind));
    out.name("host", cause.host);
    out.integer("round", cause.round);
    out.integer("signal", cause.signal);
    out.text("reason", cause.reason);
    if (cause.worker) out.object("worker", [&] { write(out, *cause.worker); });
}

void write(JsonWriter& out, const Join& join) {
    out.name("run_id", join.run_id);
    if (join.incarnation) out.name("incarnation", *join.incarnation);
    out.object("node", [&] { write(out, join.node); });
    out.object("nnodes", [&] {
        out.integer("min", join.nodes.min);
        out.integer("max", join.nodes.max);
        out.integer("spares", join.nodes.spares);
    });
    out.integer("nproc", join.nproc);
    out.name("role", join.role);
    if (join.node_rank) out.integer("node_rank", *join.node_rank);
    out.name("addr", join.addr);
    out.name("socket_addr", join.socket_addr);
    out.integer("store_port", join.store_port);
    out.integer("peer_port", join.peer_port);
    out.integer("max_restarts", join.max_restarts);
    out.object("settings", [&] { write(out, join.settings); });
}

void write(JsonWriter& out, const Assignment& assignment) {
    out.integer("round", assignment.round);
    out.integer("restart_count", assignment.restart_count);
    out.integer("group_rank", assignment.group_rank);
    out.integer("group_world_size", assignment.group_world_size);
    out.integer("rank_base", assignment.rank_base);
    out.integer("world_size", assignment.world_size);
    out.integer("role_rank_base", assignment.role_rank_base);
    out.integer("role_world_size", assignment.role_world_size);
    out.name("master_addr", assignment.master_addr);
    out.integer("master_port", assignment.master_port);
    out.list("neighbours", assignment.neighbours, [&](const Neighbour& neighbour) {
        out.object("", [&] {
            out.name("nonce", neighbour.nonce.to_string());
            out.name("addr", neighbour.addr);
            out.integer("peer_port", neighbour.peer_port);
        });
    });
}

void write(JsonWriter& out, const Resume& resume) {
    out.object("join", [&] { write(out, resume.join); });
    out.name("incarnation", resume.incarnation);
    if (resume.assignment) out.object("assignment", [&] { write(out, *resume.assignment); });
    out.integer("spent", resume.spent);
    out.name("state", name_of(resume.state));
    if (resume.failure) out.object("failure", [&] { write(out, *resume.failure); });
    if (resume.age) out.seconds("age", *resume.age);
    if (resume.kind) out.name("kind", name_of(*resume.kind));
    out.integer("reached", resume.reached);
}

void write(JsonWriter& out, const Ready& ready) {
    out.integer("round", ready.round);
    out.integer("store_port", ready.store_port);
    out.integer("nproc", ready.nproc);
}

void write(JsonWriter& out, const Started& started) {
    out.integer("round", started.round);
    out.integer("reached", started.reached);
}

void write(JsonWriter& out, const Succeeded& succeeded) {
    out.integer("round", succeeded.round);
}

void write(JsonWriter& out, const Failed& failed) {
    out.integer("round", failed.round);
    out.seconds("age", failed.age);
    if (failed.kind) out.name("kind", name_of(*failed.kind));
    out.object("failure", [&] { write(out, failed.failure); });
}

void write(JsonWriter& out, const Heartbeat& heartbeat) {
    out.counter("seq", heartbeat.seq);
}

void write(JsonWriter& out, const NeighbourHeard& heard) {
    out.name("node", heard.node.to_string());
    out.integer("round", heard.round);
    if (heard.heard_ago) out.seconds("heard_ago", *heard.heard_ago);
    out.truth("disowned", heard.is_disowned);
}

void write(JsonWriter& out, const Leave& leave) {
    out.text("reason", leave.reason);
    out.integer("signal", leave.signal);
}

void write(JsonWriter& out, const Hello& hello) {
    out.list("versions", hello.versions, [&](int version) { out.integer("", version); });
    out.name("server", hello.server);
    out.list("auth", hello.auth, [&](const std::string& method) { out.name("", method); });
}

void write(JsonWriter& out, const Welcome& welcome) {
    out.name("incarnation", welcome.incarnation);
    out.integer("version", welcome.version);
    out.seconds("lease", welcome.lease);
    out.truth("hosted", welcome.hosted);
    out.list("endpoints", welcome.endpoints, [&](const std::string& endpoint) {
        out.name("", endpoint);
    });
}

void write(JsonWriter& out, const Refused& refused) {
    out.text("reason", refused.reason);
    if (refused.retry) out.seconds("retry", *refused.retry);
}

void write(JsonWriter&, const Resumed&) {}

void write(JsonWriter& out, const Lost& lost) {
    out.text("reason", lost.reason);
}

void write(JsonWriter& out, const Stop& stop) {
    out.integer("round", stop.round);
    out.text("reason", stop.reason);
    out.integer("how", stop.how);
    out.seconds("grace", stop.grace);
    out.object("first_cause", [&] { write(out, stop.first_cause); });
}

void write(JsonWriter& out, const Standby& standby) {
    out.text("reason", standby.reason);
}

void write(JsonWriter& out, const HeartbeatAck& ack) {
    out.counter("seq", ack.seq);
}

void write(JsonWriter& out, const Ask& ask) {
    out.name("node", ask.node.to_string());
    out.integer("round", ask.round);
    out.truth("disowns", ask.disowns);
}

void write(JsonWriter& out, const JobResult& result) {
    out.name("outcome", name_of(result.outcome));
    out.integer("exit_code", result.exit_code);
    if (result.first_cause) out.object("first_cause", [&] { write(out, *result.first_cause); });
    if (result.consequences.empty()) return;
    out.list("consequences", result.consequences, [&](const Consequence& consequence) {
        out.object("", [&] {
            out.integer("rank", consequence.rank);
            out.integer("local_rank", consequence.local_rank);
            out.integer("pid", consequence.pid);
            out.name("host", consequence.host);
            out.object("end", [&] { write(out, consequence.end); });
        });
    });
}

void write(JsonWriter& out, const ProtocolError& error) {
    out.text("reason", error.reason);
}

template <class Variant>
std::string frame_of(const Variant& message) {
    return std::visit(
        [&](const auto& value) {
            JsonWriter out(type_of(message));
            write(out, value);
            return std::move(out).frame();
        },
        message);
}

// ---- reading ------------------------------------------------------------------------------------

/// The fields of one JSON object. The first thing that is wrong is kept in `problem` with its path;
/// every reader then returns some valid value, so that callers read straight on and look once.
class Fields {
public:
    Fields(const Json& object, std::string path, std::string& problem)
        : object_(object),
          path_(std::move(path)),
          problem_(problem) {}

    bool has(const char* field) const { return object_.contains(field); }

    void complain(const char* field, std::string_view accepted) const {
        if (problem_.empty()) problem_ = path_ + field + ": " + std::string{accepted};
    }

    std::int64_t whole(const char* field, std::int64_t lowest, std::int64_t highest) const {
        const auto* value = find(field);
        // Read as what it is: a big unsigned number turned into a signed one would look negative.
        const bool is_too_big = value != nullptr && value->is_number_unsigned() &&
                                value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
        if (value != nullptr && value->is_number_integer() && !is_too_big) {
            const auto number = value->get<std::int64_t>();
            if (number >= lowest && number <= highest) return number;
        }
        complain(
            field, "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
        return lowest;
    }

    int integer(const char* field, std::int64_t lowest, std::int64_t highest) const {
        return static_cast<int>(whole(field, lowest, highest));
    }

    std::uint16_t port(const char* field, int lowest = 0) const {
        return static_cast<std::uint16_t>(whole(field, lowest, 65'535));
    }

    std::uint64_t counter(const char* field) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_number_unsigned()) return value->get<std::uint64_t>();
        complain(field, "an integer that is not negative");
        return 0;
    }

    bool truth(const char* field) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_boolean()) return value->get<bool>();
        complain(field, "true or false");
        return false;
    }

    Duration seconds(const char* field) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_number()) {
            const auto number = value->get<double>();
            if (number >= 0 && number <= longest_seconds) return from_seconds(number);
        }
        complain(field, "seconds, from 0 to ten years");
        return Duration::zero();
    }

    std::string name(const char* field, std::size_t least_bytes = 0) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_string()) {
            const auto& text = value->get_ref<const std::string&>();
            if (text.size() >= least_bytes && text.size() <= limits::max_name_bytes) return text;
        }
        complain(field, "text of " + std::to_string(least_bytes) + " to 255 bytes");
        return {};
    }

    // Not cut here: the frame bounds it, and writing cuts.
    std::string text(const char* field) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_string()) return value->get<std::string>();
        complain(field, "text");
        return {};
    }

    Nonce nonce(const char* field) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_string())
            if (const auto nonce = Nonce::parse(value->get_ref<const std::string&>()))
                return *nonce;
        complain(field, "32 lower-case hexadecimal digits");
        return {};
    }

    /// One of the names that `name_of` gives to `values`.
    template <class Enum, std::size_t N>
    Enum one_of(const char* field, const std::array<Enum, N>& values) const {
        const auto* value = find(field);
        if (value != nullptr && value->is_string())
            for (const auto candidate : values)
                if (name_of(candidate) == value->get_ref<const std::string&>()) return candidate;
        std::string accepted = "one of";
        for (const auto candidate : values)
            accepted += " " + std::string{name_of(candidate)};
        complain(field, accepted);
        return values.front();
    }

    Fields object(const char* field) const {
        static const Json empty = Json::object();
        const auto* value = find(field);
        const bool is_good = value != nullptr && value->is_object();
        if (!is_good) complain(field, "an object");
        return {is_good ? *value : empty, path_ + field + ".", problem_};
    }

    /// Calls `element` with each element wrapped as the field `value` of an object.
    template <class Element>
    void list(const char* field, std::size_t most, Element element) const {
        const auto* value = find(field);
        if (value == nullptr || !value->is_array() || value->size() > most) {
            complain(field, "a list of at most " + std::to_string(most));
            return;
        }
        for (const auto& item : *value) {
            const Json wrapped{{"value", item}};
            element(Fields{wrapped, path_ + field + "[].", problem_});
        }
    }

private:
    const Json* find(const char* field) const {
        const auto found = object_.find(field);
        return found == object_.end() ? nullptr : &*found;
    }

    const Json& object_;
    std::string path_;
    std::string& problem_;
};

constexpr std::array late_nodes{LateNodes::restart, LateNodes::at_restart, LateNodes::never};
constexpr std::array outcomes{Outcome::succeeded, Outcome::failed, Outcome::cancelled};
constexpr std::array node_states{
    NodeState::starting,
    NodeState::running,
    NodeState::stopping,
    NodeState::ready,
    NodeState::succeeded};
constexpr std::array end_kinds{
    WorkerEnd::Kind::exited, WorkerEnd::Kind::killed, WorkerEnd::Kind::not_executed};
constexpr std::array own_words{
    WorkerFailure::OwnWords::none,
    WorkerFailure::OwnWords::message,
    WorkerFailure::OwnWords::message_and_details};
constexpr std::array cause_kinds{
    Cause::Kind::worker_failed,
    Cause::Kind::not_executable,
    Cause::Kind::store_unreachable,
    Cause::Kind::node_lost,
    Cause::Kind::node_left,
    Cause::Kind::late_node,
    Cause::Kind::nobody_joined,
    Cause::Kind::crash_loop,
    Cause::Kind::cancelled,
    Cause::Kind::superseded};

int round_of(const Fields& in) {
    return in.integer("round", 0, biggest_int);
}

Node read_node(const Fields& in) {
    Node node;
    node.nonce = in.nonce("nonce");
    node.host = in.name("host");
    node.pid = in.integer("pid", 0, biggest_int);
    node.user =
        static_cast<std::uint32_t>(in.whole("user", 0, std::numeric_limits<std::uint32_t>::max()));
    return node;
}

NodeRange read_range(const Fields& in) {
    NodeRange range;
    range.min = in.integer("min", 1, limits::max_nodes_per_job);
    range.max = in.integer("max", range.min, limits::max_nodes_per_job);
    range.spares = in.integer("spares", 0, limits::max_nodes_per_job);
    return range;
}

Settings read_settings(const Fields& in) {
    Settings settings;
    settings.join_timeout = in.seconds("join_timeout");
    settings.last_call_timeout = in.seconds("last_call_timeout");
    settings.lease = in.seconds("lease");
    settings.grace = in.seconds("grace");
    settings.late_nodes = in.one_of("late_nodes", late_nodes);
    settings.max_losses = in.integer("max_losses", 0, biggest_count);
    settings.is_static = in.truth("static");
    settings.restart.shortest_delay = in.seconds("restart_delay");
    settings.restart.longest_delay = in.seconds("longest_restart_delay");
    settings.restart.refill_after = in.seconds("restart_refill");
    settings.restart.final_codes.clear();
    in.list("no_restart_on", limits::max_final_codes, [&](const Fields& code) {
        settings.restart.final_codes.push_back(code.integer("value", 0, biggest_exit_code));
    });
    return settings;
}

WorkerEnd read_end(const Fields& in) {
    WorkerEnd end;
    end.kind = in.one_of("kind", end_kinds);
    end.value = in.integer("value", std::numeric_limits<std::int32_t>::min(), biggest_int);
    end.core_dumped = in.truth("core_dumped");
    return end;
}

WorkerFailure read_failure(const Fields& in) {
    WorkerFailure failure;
    failure.rank = in.integer("rank", 0, biggest_int);
    failure.local_rank = in.integer("local_rank", 0, limits::max_workers_per_node - 1);
    failure.pid = in.integer("pid", 0, biggest_int);
    failure.end = read_end(in.object("end"));
    failure.is_consequence = in.truth("is_consequence");
    if (in.has("unix_time")) failure.unix_time = in.whole("unix_time", 0, latest_unix_time);
    failure.message = in.text("message");
    if (in.has("why")) failure.why = in.text("why");
    if (in.has("error_file")) failure.error_file = in.text("error_file");
    if (in.has("log_file")) failure.log_file = in.text("log_file");
    failure.details = in.text("details");
    if (in.has("own_words")) failure.own_words = in.one_of("own_words", own_words);
    return failure;
}

Cause read_cause(const Fields& in) {
    Cause cause;
    cause.kind = in.one_of("kind", cause_kinds);
    cause.host = in.name("host");
    cause.round = in.integer("round", -1, biggest_int);
    cause.signal = in.integer("signal", 0, biggest_signal);
    cause.reason = in.text("reason");
    if (in.has("worker")) cause.worker = read_failure(in.object("worker"));
    return cause;
}

Join read_join(const Fields& in) {
    Join join;
    join.run_id = in.name("run_id", 1);
    if (in.has("incarnation")) join.incarnation = in.name("incarnation", 1);
    join.node = read_node(in.object("node"));
    join.nodes = read_range(in.object("nnodes"));
    join.nproc = in.integer("nproc", 1, limits::max_workers_per_node);
    join.role = in.name("role");
    if (in.has("node_rank"))
        join.node_rank = in.integer("node_rank", 0, limits::max_nodes_per_job - 1);
    join.addr = in.name("addr");
    join.socket_addr = in.name("socket_addr");
    join.store_port = in.port("store_port");
    join.peer_port = in.port("peer_port");
    join.max_restarts = in.integer("max_restarts", 0, biggest_count);
    join.settings = read_settings(in.object("settings"));
    return join;
}

Assignment read_assignment(const Fields& in) {
    Assignment assignment;
    assignment.round = round_of(in);
    assignment.restart_count = in.integer("restart_count", 0, biggest_count);
    assignment.group_rank = in.integer("group_rank", 0, limits::max_nodes_per_job - 1);
    assignment.group_world_size = in.integer("group_world_size", 1, limits::max_nodes_per_job);
    assignment.rank_base = in.integer("rank_base", 0, biggest_int);
    assignment.world_size = in.integer("world_size", 1, biggest_int);
    assignment.role_rank_base = in.integer("role_rank_base", 0, biggest_int);
    assignment.role_world_size = in.integer("role_world_size", 1, biggest_int);
    assignment.master_addr = in.name("master_addr", 1);
    assignment.master_port = in.port("master_port", 1);
    in.list("neighbours", most_neighbours, [&](const Fields& element) {
        const auto fields = element.object("value");
        Neighbour neighbour;
        neighbour.nonce = fields.nonce("nonce");
        neighbour.addr = fields.name("addr");
        neighbour.peer_port = fields.port("peer_port");
        assignment.neighbours.push_back(std::move(neighbour));
    });
    return assignment;
}

Resume read_resume(const Fields& in) {
    Resume resume;
    resume.join = read_join(in.object("join"));
    resume.incarnation = in.name("incarnation", 1);
    if (in.has("assignment")) resume.assignment = read_assignment(in.object("assignment"));
    resume.spent = in.integer("spent", 0, biggest_count);
    resume.state = in.one_of("state", node_states);
    if (in.has("failure")) resume.failure = read_failure(in.object("failure"));
    if (in.has("age")) resume.age = in.seconds("age");
    if (in.has("kind")) resume.kind = in.one_of("kind", cause_kinds);
    resume.reached = in.integer("reached", 0, limits::max_nodes_per_job);
    return resume;
}

Ready read_ready(const Fields& in) {
    return {
        round_of(in),
        in.port("store_port", 1),
        in.integer("nproc", 1, limits::max_workers_per_node)};
}

Failed read_failed(const Fields& in) {
    Failed failed;
    failed.round = round_of(in);
    failed.age = in.seconds("age");
    if (in.has("kind")) failed.kind = in.one_of("kind", cause_kinds);
    failed.failure = read_failure(in.object("failure"));
    return failed;
}

NeighbourHeard read_heard(const Fields& in) {
    NeighbourHeard heard;
    heard.node = in.nonce("node");
    heard.round = round_of(in);
    if (in.has("heard_ago")) heard.heard_ago = in.seconds("heard_ago");
    heard.is_disowned = in.truth("disowned");
    return heard;
}

std::vector<std::string> read_names(const Fields& in, const char* field) {
    std::vector<std::string> names;
    in.list(field, most_list_elements, [&](const Fields& element) {
        names.push_back(element.name("value"));
    });
    return names;
}

Hello read_hello(const Fields& in) {
    Hello hello;
    hello.versions.clear();
    in.list("versions", most_list_elements, [&](const Fields& element) {
        hello.versions.push_back(element.integer("value", 0, biggest_int));
    });
    hello.server = in.name("server");
    hello.auth = read_names(in, "auth");
    return hello;
}

Welcome read_welcome(const Fields& in) {
    Welcome welcome;
    welcome.incarnation = in.name("incarnation", 1);
    welcome.version = in.integer("version", 1, 1000);
    welcome.lease = in.seconds("lease");
    welcome.hosted = in.truth("hosted");
    welcome.endpoints = read_names(in, "endpoints");
    return welcome;
}

Refused read_refused(const Fields& in) {
    Refused refused;
    refused.reason = in.text("reason");
    if (in.has("retry")) refused.retry = in.seconds("retry");
    return refused;
}

Stop read_stop(const Fields& in) {
    Stop stop;
    stop.round = round_of(in);
    stop.reason = in.text("reason");
    stop.how = in.integer("how", 1, biggest_signal);
    stop.grace = in.seconds("grace");
    stop.first_cause = read_cause(in.object("first_cause"));
    return stop;
}

JobResult read_result(const Fields& in) {
    JobResult result;
    result.outcome = in.one_of("outcome", outcomes);
    result.exit_code = in.integer("exit_code", 0, 255);
    if (in.has("first_cause")) result.first_cause = read_cause(in.object("first_cause"));
    if (!in.has("consequences")) return result;
    in.list("consequences", limits::max_told_consequences, [&](const Fields& element) {
        const auto fields = element.object("value");
        Consequence consequence;
        consequence.rank = fields.integer("rank", 0, biggest_int);
        consequence.local_rank = fields.integer("local_rank", 0, limits::max_workers_per_node - 1);
        consequence.pid = fields.integer("pid", 0, biggest_int);
        consequence.host = fields.name("host");
        consequence.end = read_end(fields.object("end"));
        result.consequences.push_back(std::move(consequence));
    });
    return result;
}

/// Nothing if there is no message of this type in this direction.
std::optional<AgentMessage> read(std::string_view type, const Fields& in, const AgentMessage*) {
    if (type == "join") return read_join(in);
    if (type == "resume") return read_resume(in);
    if (type == "ready") return read_ready(in);
    if (type == "started")
        return Started{round_of(in), in.integer("reached", 0, limits::max_nodes_per_job)};
    if (type == "succeeded") return Succeeded{round_of(in)};
    if (type == "failed") return read_failed(in);
    if (type == "heartbeat") return Heartbeat{in.counter("seq")};
    if (type == "neighbour") return read_heard(in);
    if (type == "leave") return Leave{in.text("reason"), in.integer("signal", 0, biggest_signal)};
    return std::nullopt;
}

std::optional<ServerMessage> read(std::string_view type, const Fields& in, const ServerMessage*) {
    if (type == "hello") return read_hello(in);
    if (type == "welcome") return read_welcome(in);
    if (type == "refused") return read_refused(in);
    if (type == "resumed") return Resumed{};
    if (type == "lost") return Lost{in.text("reason")};
    if (type == "assignment") return read_assignment(in);
    if (type == "stop") return read_stop(in);
    if (type == "standby") return Standby{in.text("reason")};
    if (type == "heartbeat_ack") return HeartbeatAck{in.counter("seq")};
    if (type == "ask") return Ask{in.nonce("node"), round_of(in), in.truth("disowns")};
    if (type == "result") return read_result(in);
    if (type == "error") return ProtocolError{in.text("reason")};
    return std::nullopt;
}

/// Looked at before the parser builds anything. Text in quotes does not count; on what is no JSON
/// the answer does not matter.
bool is_nested_too_deeply(std::string_view json) {
    int depth = 0;
    bool is_in_text = false;
    for (std::size_t at = 0; at < json.size(); ++at) {
        const char c = json[at];
        if (is_in_text && c == '\\')
            ++at;
        else if (c == '"')
            is_in_text = !is_in_text;
        else if (!is_in_text && (c == '{' || c == '['))
            ++depth;
        else if (!is_in_text && (c == '}' || c == ']'))
            --depth;
        if (depth > limits::max_json_depth) return true;
    }
    return false;
}

template <class Message>
Result<Message> message_of(std::string_view body) {
    if (is_nested_too_deeply(body)) return Failure{Error::nested_too_deeply, "control frame"};
    const auto json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return Failure{Error::not_json, "control frame"};
    const auto type_field = json.find("type");
    if (type_field == json.end() || !type_field->is_string())
        return Failure{Error::unknown_type, "control frame without a type"};
    const auto& type = type_field->get_ref<const std::string&>();
    if (type == "join" && body.size() > limits::max_join_frame_bytes)
        return Failure{Error::frame_too_long, "join"};

    std::string problem;
    auto message = read(type, Fields{json, type + ".", problem}, static_cast<Message*>(nullptr));
    if (!message) return Failure{Error::unknown_type, escaped(type, limits::max_name_bytes)};
    if (!problem.empty()) return Failure{Error::bad_field, problem};
    return std::move(*message);
}

}  // namespace
}  // namespace codec

std::string encode(const AgentMessage& message) {
    return codec::frame_of(message);
}

std::string encode(const ServerMessage& message) {
    return codec::frame_of(message);
}

template <class Message>
Result<std::optional<Message>> FrameDecoder<Message>::next() {
    constexpr std::size_t header_bytes = 4;
    const auto rest = std::string_view{buffer_}.substr(consumed_);
    if (rest.size() < header_bytes) return std::optional<Message>{};
    std::size_t size = 0;
    for (const char byte : rest.substr(0, header_bytes))
        size = size << 8U | static_cast<unsigned char>(byte);
    if (size > limits::max_control_frame_bytes)
        return Failure{Error::frame_too_long, std::to_string(size) + " bytes"};
    if (rest.size() < header_bytes + size) return std::optional<Message>{};

    // After an error the frame stays: asking again gives the same answer, never the next frame.
    auto message = codec::message_of<Message>(rest.substr(header_bytes, size));
    if (!message) return message.error();
    consumed_ += header_bytes + size;
    if (consumed_ == buffer_.size() || consumed_ >= limits::max_control_frame_bytes) {
        buffer_.erase(0, consumed_);
        consumed_ = 0;
    }
    return std::optional<Message>{std::move(*message)};
}

template class FrameDecoder<AgentMessage>;
template class FrameDecoder<ServerMessage>;

}  // namespace ddprun::control
