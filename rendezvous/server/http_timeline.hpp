// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/server/http_status.hpp"

#include <memory>

namespace ddprun::server {

/// `/timeline?job=ID[&from=N]`: the rounds of a job from the N-th on, as JSON. Null: the query has
/// no job, or N is no number of a round. Pure.
std::unique_ptr<JobPage> timeline_page(const HttpRequest& request);

}  // namespace ddprun::server
