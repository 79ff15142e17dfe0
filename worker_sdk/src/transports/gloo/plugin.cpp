// SPDX-License-Identifier: Apache-2.0
// The cpu transport between processes: Gloo over TCP. Only this folder sees Gloo's headers; it
// becomes libddprun_gloo.so, opened so that its symbols never mix with another copy in the process
// (PyTorch has one).
#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/gloo/collectives.hpp"
#include "worker_sdk/src/transports/gloo/mesh.hpp"
#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"
#include "worker_sdk/src/transports/gloo/rendezvous.hpp"

#include <string.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>

namespace ddprun::groups {

namespace {

void report_error(DdprunReport* report, GroupError::Kind kind, const std::string& text) {
    report->kind = static_cast<int>(kind);
    const auto length = std::min(text.size(), sizeof report->text - 1);
    ::memcpy(report->text, text.data(), length);
    report->text[length] = '\0';
}

void report_loss(DdprunReport* report, const Lost& lost, const std::string& otherwise) {
    report_error(report, GroupError::Kind::peer_lost, lost.ranks.empty() ? otherwise : lost.text);
    report->rank_count =
        static_cast<std::int32_t>(std::min(lost.ranks.size(), std::size(report->ranks)));
    std::copy_n(lost.ranks.begin(), report->rank_count, report->ranks);
}

bool is_timeout(const std::string& text) {
    return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

/// Requires: all pairs were connected once, or the mesh is aborted.
void report_io(DdprunReport* report, Mesh& mesh, const std::string& text) {
    if (const auto aborted = mesh.aborted())
        report_loss(report, *aborted, "aborted");
    else if (is_timeout(text))
        report_error(report, GroupError::Kind::timeout, text);
    else
        report_loss(report, mesh.broken_connections(), text);
}

void* open_gloo(const DdprunOpen* settings, DdprunReport* report) {
    try {
        return new Mesh(*settings);
    } catch (const std::exception& thrown) {
        report_error(report, GroupError::Kind::other, without_place(thrown.what()));
    }
    return nullptr;
}

int connect_gloo(void* transport, const DdprunStore* store, DdprunReport* report) {
    auto& self = *static_cast<Mesh*>(transport);
    try {
        self.connect(*store);
        report->kind = 0;
    } catch (const StoreFailed& failed) {
        report_error(report, static_cast<GroupError::Kind>(failed.kind), "the store failed");
    } catch (const ConnectFailed& failed) {
        // Which rank is late is not known: this peer may be waiting for another.
        if (is_timeout(failed.text))
            report_error(report, GroupError::Kind::timeout, failed.text);
        else
            report_loss(report, {{failed.peer}, failed.text}, {});
    } catch (const gloo::IoException& thrown) {
        report_io(report, self, without_place(thrown.what()));
    } catch (const std::exception& thrown) {
        report_error(report, GroupError::Kind::other, without_place(thrown.what()));
    }
    return report->kind;
}

int run_gloo(void* transport, const DdprunCollective* collective, DdprunReport* report) {
    auto& self = *static_cast<Mesh*>(transport);
    try {
        perform(self, *collective);
        report->kind = 0;
    } catch (const gloo::IoException& thrown) {
        report_io(report, self, without_place(thrown.what()));
    } catch (const std::exception& thrown) {
        report_error(report, GroupError::Kind::other, without_place(thrown.what()));
    }
    return report->kind;
}

void abort_gloo(void* transport) {
    static_cast<Mesh*>(transport)->abort();
}

int is_gloo_broken(void* transport) {
    return static_cast<Mesh*>(transport)->is_broken() ? 1 : 0;
}

void close_gloo(void* transport) {
    delete static_cast<Mesh*>(transport);
}

}  // namespace

}  // namespace ddprun::groups

extern "C" [[gnu::visibility("default")]] const DdprunPlugin* ddprun_transport_plugin() {
    using namespace ddprun::groups;
    static const DdprunPlugin plugin{
        plugin_version, open_gloo, connect_gloo, run_gloo, abort_gloo, is_gloo_broken, close_gloo};
    return &plugin;
}
