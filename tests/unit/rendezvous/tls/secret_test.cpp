// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

using namespace ddprun;

namespace {

const std::string prefix = "ddprun-secret-1:";

std::string line_of(char character) {
    return prefix + std::string(43, character);
}

std::string problem_with(const std::string& text) {
    const auto secrets = tls::parse_secrets(text);
    if (secrets) return {};
    CHECK(secrets.error().code == system_code(EINVAL));
    return secrets.error().context;
}

}  // namespace

TEST_CASE("a secret is its prefix and 43 characters") {
    for (const auto& text :
         {line_of('A'),
          line_of('A') + "\n",
          line_of('A') + "\r\n",
          "\n  " + line_of('A') + "\n\n"}) {
        CAPTURE(text);
        const auto secrets = tls::parse_secrets(text);
        REQUIRE(secrets.has_value());
        REQUIRE(secrets->size() == 1);
        CHECK(secrets->front().characters() == std::string(43, 'A'));
    }
}

TEST_CASE("several lines are several secrets in their order, and equal ones are one") {
    const auto secrets =
        tls::parse_secrets(line_of('B') + "\n" + line_of('A') + "\n" + line_of('B') + "\n");
    REQUIRE(secrets.has_value());
    REQUIRE(secrets->size() == 2);
    CHECK(secrets->front().characters() == std::string(43, 'B'));
}

TEST_CASE("what is no secret is named by its line, and not shown") {
    CHECK(problem_with("").starts_with("no secret in it"));
    CHECK(problem_with("\r\n").starts_with("no secret in it"));
    for (const auto& text :
         {line_of('A') + "A",
          prefix + std::string(42, 'A'),
          line_of('+'),
          std::string{"hunter2"},
          "ddprun-secret-2:" + std::string(43, 'A'),
          line_of('A') + " " + line_of('A')}) {
        CAPTURE(text);
        const auto problem = problem_with(line_of('C') + "\n" + text + "\n");
        CHECK(problem.starts_with("line 2 is no secret"));
        CHECK(problem.find("hunter2") == std::string::npos);
        CHECK(problem.find("AAAA") == std::string::npos);
    }
    std::string many;
    for (char character = 'A'; character <= 'Z'; ++character)
        many += line_of(character) + "\n";
    CHECK(problem_with(many) == "more than 16 secrets");
}

TEST_CASE("a new secret is a line that is read back") {
    std::array<std::uint8_t, 32> random{};
    for (std::size_t i = 0; i < random.size(); ++i)
        random.at(i) = static_cast<std::uint8_t>(224 + i);
    const auto line = tls::secret_line(random);
    CHECK(line == prefix + "4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3-Pn6-_z9_v8\n");
    CHECK(tls::parse_secrets(line).has_value());
}
