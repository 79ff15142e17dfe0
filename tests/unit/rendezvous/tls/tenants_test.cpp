// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tenants.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;

namespace {

tls::Secret secret_of(char letter) {
    return tls::Secret{std::string(43, letter)};
}

/// A tenant with a secret for each letter.
tls::Tenant tenant(const std::string& name, const std::string& letters) {
    tls::SecretSource source{"--secret-dir", "/tenants/" + name, {}};
    for (const char letter : letters)
        source.secrets.push_back(secret_of(letter));
    return {name, source};
}

std::string tenant_of(const tls::Tenants& tenants, char letter) {
    const auto found = tenants.find_control_key(tls::control_key(secret_of(letter)).identity);
    if (!found) return {};
    CHECK(found->key == tls::control_key(secret_of(letter)));
    CHECK(tenants.find_tenant_of_token(tls::page_token(secret_of(letter))) == found->tenant);
    return found->tenant;
}

}  // namespace

TEST_CASE("the secret that a caller proves selects its tenant, each of its secrets alike") {
    const auto tenants = tls::Tenants::of({tenant("red", "C"), tenant("blue", "AB")});
    REQUIRE(tenants.has_value());
    CHECK(tenant_of(*tenants, 'A') == "blue");
    CHECK(tenant_of(*tenants, 'B') == "blue");
    CHECK(tenant_of(*tenants, 'C') == "red");
    CHECK(tenant_of(*tenants, 'D').empty());
    CHECK(tenants->all().front().name == "blue");
    CHECK_FALSE(tenants->find_tenant_of_token("").has_value());
    CHECK_FALSE(tls::Tenants{}.find_control_key("").has_value());
}

TEST_CASE("two tenants with one secret are no tenants") {
    const auto tenants = tls::Tenants::of({tenant("red", "CA"), tenant("blue", "AB")});
    REQUIRE_FALSE(tenants.has_value());
    CHECK(tenants.error().context == "'blue' and 'red' have the same secret");
}

TEST_CASE("a tenant's name is a plain word") {
    for (const std::string name : {"a", "team-7", "Team_7.b", "0"})
        CHECK(tls::is_tenant_name(name));
    CHECK(tls::is_tenant_name(std::string(64, 'x')));
    for (const std::string name : {"", ".hidden", "..", "a b", "a/b", "a\n", "\xc3\xa4", "a~"})
        CHECK_FALSE(tls::is_tenant_name(name));
    CHECK_FALSE(tls::is_tenant_name(std::string(65, 'x')));
}
