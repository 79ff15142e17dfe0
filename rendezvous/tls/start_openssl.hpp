// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::tls {

/// Before any other call of OpenSSL: its own start would load the configuration of the machine, and
/// the modules that are named there, which a static program must not. Harmless when repeated.
void start_openssl();

/// Whether OpenSSL derives keys with these properties ("fips=yes"; nullptr: any).
bool has_key_derivation(const char* properties);

}  // namespace ddprun::tls
