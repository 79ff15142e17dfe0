// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/server/http_status.hpp"

#include <optional>
#include <string_view>

namespace ddprun::server {

/// The files of the page for browsers: `/`, `/page.css` and `/page.js`. None: no such file. Their
/// source is in page/, embedded when the program is built.
std::optional<HttpResponse> page_file(std::string_view path);

}  // namespace ddprun::server
