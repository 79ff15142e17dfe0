// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// `text` without what looks like a secret, each replaced by "[redacted]": a value after a name
/// that ends in a word such as `password`, `token` or `api_key`, the password in a URL, and tokens
/// that are known by their beginning (`hf_`, `ghp_`, `AKIA`, ...). For text of workers that users
/// other than their owner may read. Secrets of any other form stay in the text.
std::string redacted(std::string_view text);

}  // namespace ddprun
