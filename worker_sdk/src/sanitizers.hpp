// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// Whether this build checks its own memory or threads with a sanitizer: then some tricks are not
/// allowed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace ddprun
