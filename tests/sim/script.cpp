// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/script.hpp"

#include "tests/sim/cluster.hpp"

#include <signal.h>

#include <cctype>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration longest_wait = 2h;

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream in{text};
    for (std::string part; std::getline(in, part, separator);)
        if (!part.empty()) parts.push_back(part);
    return parts;
}

int signal_of(const std::string& name) {
    static const std::map<std::string, int> signals{
        {"TERM", SIGTERM}, {"INT", SIGINT}, {"KILL", SIGKILL}, {"SEGV", SIGSEGV}, {"HUP", SIGHUP}};
    return signals.at(name);
}

control::NodeRange range_of(const std::string& text) {
    const auto plain = text.substr(0, text.find('+'));
    const auto ends = split(plain, ':');
    control::NodeRange range{std::stoi(ends.front()), std::stoi(ends.back()), 0};
    if (plain.size() < text.size()) range.spares = std::stoi(text.substr(plain.size() + 1));
    return range;
}

control::LateNodes policy_of(const std::string& name) {
    if (name == "never") return control::LateNodes::never;
    return name == "at-restart" ? control::LateNodes::at_restart : control::LateNodes::restart;
}

class Player {
public:
    /// Performs a command. Returns what was wrong, or nothing.
    std::string obey(const std::string& line) {
        const auto parts = split(line, ' ');
        std::map<std::string, std::string> options;
        std::string subject;
        for (std::size_t i = 1; i < parts.size(); ++i) {
            const auto equals = parts[i].find('=');
            if (equals == std::string::npos)
                (subject.empty() ? subject : options["what"]) = parts[i];
            else
                options[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
        }
        try {
            return obey(parts.front(), subject, options);
        } catch (const std::exception&) {
            return "cannot be read: " + line;
        }
    }

    std::vector<std::string> take_record() {
        if (!cluster_) return {};
        auto record = cluster_->world().take_record();
        for (const auto& complaint : cluster_->checkers().complaints())
            record.push_back("! " + complaint);
        return record;
    }

private:
    using Options = std::map<std::string, std::string>;

    std::string obey(const std::string& verb, const std::string& subject, const Options& options) {
        if (verb == "cluster") return begin(options);
        if (!cluster_) return "no cluster yet";
        if (verb == "until") return wait(subject, options);
        if (verb == "after") {
            cluster_->pass(from_seconds(std::stod(subject)));
            return {};
        }
        if (verb == "finish") {
            cluster_->finish_workers();
            return {};
        }
        if (verb == "start") {
            cluster_->start(subject);
            return {};
        }
        const bool is_path =
            options.contains("to") || (options.contains("what") && verb != "signal");
        if (is_path) return obey_about_path(verb, subject, options);
        if (subject == "server") return obey_about_server(verb);
        if (subject == "etcd") return obey_about_etcd(verb);
        auto& host = cluster_->host(subject.substr(0, subject.find('.')));
        const std::map<std::string, std::function<void()>> plain{
            {"kill", [&] { host.kill(); }},
            {"switch_off", [&] { host.switch_off(); }},
            {"stop", [&] { host.stop_agent(); }},
            {"continue", [&] { host.continue_agent(); }},
            {"suspend", [&] { host.suspend(); }},
            {"wake", [&] { host.wake_up(); }},
            {"cut", [&] { host.cut(); }},
            {"heal", [&] { host.heal(); }},
            {"break", [&] { host.break_connection(); }},
            {"let_go", [&] { host.let_go(); }},
            {"stubborn", [&] { host.make_stubborn(local_rank(subject)); }},
            {"stick", [&] { host.stick(local_rank(subject)); }},
            {"signal", [&] { host.signal(signal_of(options.at("what"))); }},
            {"crash",
             [&] {
                 end_worker(
                     host,
                     subject,
                     agent::WorkerExit::Killed{signal_of(options.at("signal")), false});
             }},
            {"exit", [&] {
                 end_worker(
                     host, subject, agent::WorkerExit::Exited{std::stoi(options.at("code"))});
             }}};
        const auto found = plain.find(verb);
        if (found == plain.end()) return "no such command: " + verb;
        found->second();
        return {};
    }

    std::string obey_about_server(const std::string& verb) {
        auto& server = cluster_->server();
        const std::map<std::string, std::function<void()>> plain{
            {"kill", [&] { server.kill(); }},
            {"restart", [&] { server.restart(); }},
            {"stop", [&] { server.pause(); }},
            {"continue", [&] { server.resume(); }}};
        const auto found = plain.find(verb);
        if (found == plain.end()) return "no such command for the server: " + verb;
        cluster_->world().note("server: " + verb);
        found->second();
        return {};
    }

    std::string obey_about_etcd(const std::string& verb) {
        auto& etcd = cluster_->etcd();
        const std::map<std::string, std::function<void()>> plain{
            {"kill", [&] { etcd.kill(); }}, {"stop", [&] { etcd.stop(); }}, {"continue", [&] {
                                                                                 etcd.go_on();
                                                                             }}};
        const auto found = plain.find(verb);
        if (found == plain.end()) return "no such command for etcd: " + verb;
        cluster_->world().note("etcd: " + verb);
        found->second();
        return {};
    }

    /// `cut a b`: both ways. `cut a to=b`: what a sends to b.
    std::string obey_about_path(
        const std::string& verb, const std::string& subject, const Options& options) {
        const auto place_of = [&](const std::string& name) {
            return name == "server" ? cluster_->server().place() : name;
        };
        auto& network = cluster_->network();
        const bool is_one_way = options.contains("to");
        const auto named = options.at(is_one_way ? "to" : "what");
        const auto from = place_of(subject);
        const auto to = place_of(named);
        cluster_->world().note(verb + " " + subject + (is_one_way ? " to " : " and ") + named);
        if (verb == "cut") {
            network.cut(from, to);
            if (!is_one_way) network.cut(to, from);
        } else if (verb == "heal") {
            network.heal(from, to);
            if (!is_one_way) network.heal(to, from);
        } else {
            return "no such command between two: " + verb;
        }
        return {};
    }

    template <class How>
    static void end_worker(Host& host, const std::string& worker, How how) {
        host.end_worker(local_rank(worker), agent::WorkerExit{std::move(how)});
    }

    static int local_rank(const std::string& worker) {
        return std::stoi(worker.substr(worker.find('.') + 1));
    }

    std::string begin(const Options& given) {
        Cluster::Options options;
        const auto value = [&](const char* name, const std::string& otherwise) {
            const auto found = given.find(name);
            return found == given.end() ? otherwise : found->second;
        };
        const auto nodes = split(value("nodes", "a"), ',');
        options.nodes = range_of(value("nnodes", std::to_string(nodes.size())));
        if (given.count("node_unit") > 0) options.nodes.unit = std::stoi(given.at("node_unit"));
        options.workers = std::stoi(value("workers", "1"));
        options.restarts = std::stoi(value("restarts", "0"));
        options.hosted_by = value("hosted_by", "");
        if (given.contains("elected"))
            options.engine = given.at("elected") == "voters" ? Cluster::Engine::voters
                                                             : Cluster::Engine::etcd;
        options.manners.step = from_seconds(std::stod(value("step", "0")));
        options.manners.can_hold = value("holds", "no") == "yes";
        options.settings.grace = from_seconds(std::stod(value("grace", "30")));
        options.settings.max_losses = std::stoi(value("max_losses", "10"));
        options.settings.late_nodes = policy_of(value("late_nodes", "restart"));
        options.settings.join_timeout = from_seconds(std::stod(value("join_timeout", "600")));
        if (given.count("replacement_timeout") > 0)
            options.settings.replacement_timeout =
                from_seconds(std::stod(given.at("replacement_timeout")));
        auto& restart = options.settings.restart;
        restart.shortest_delay = from_seconds(std::stod(value("restart_delay", "0")));
        restart.longest_delay = restart.shortest_delay;
        cluster_ = std::make_unique<Cluster>(1, options);
        for (const auto& node : nodes)
            cluster_->start(node);
        return {};
    }

    std::string wait(const std::string& state, const Options& options) {
        const auto round = options.find("round");
        const bool has_come = cluster_->until(
            [&] {
                if (round != options.end()) return cluster_->round() == std::stoi(round->second);
                if (state == "training") return cluster_->is_training();
                if (state == "done") return cluster_->is_done();
                return cluster_->job_state() == state;
            },
            longest_wait);
        return has_come ? std::string{} : "never comes about: " + state;
    }

    std::unique_ptr<Cluster> cluster_;
};

}  // namespace

std::string play(const std::string& text) {
    Player player;
    std::string result;
    std::istringstream in{text};
    std::vector<std::string> problems;
    for (std::string line; std::getline(in, line);) {
        const bool is_record =
            !line.empty() &&
            (std::isdigit(static_cast<unsigned char>(line[0])) != 0 || line[0] == '!');
        if (is_record) continue;
        result += line + "\n";
        if (line == "----") {
            for (const auto& entry : player.take_record())
                result += entry + "\n";
            for (const auto& problem : problems)
                result += "! " + problem + "\n";
            problems.clear();
        } else if (!line.empty() && line[0] != '#') {
            if (const auto problem = player.obey(line); !problem.empty())
                problems.push_back(problem);
        }
    }
    return result;
}

}  // namespace ddprun::sim
