// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::tls {

/// Starts OpenSSL; call it before any other OpenSSL call. OpenSSL's automatic start would load the
/// machine's configuration and the modules named there, which a static program must not load.
/// Harmless when repeated.
void start_openssl();

/// Whether OpenSSL can derive keys with these properties ("fips=yes"; nullptr: any).
bool has_key_derivation(const char* properties);

}  // namespace ddprun::tls
