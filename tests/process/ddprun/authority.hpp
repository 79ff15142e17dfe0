// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

/// Certificates for tests of connections by https.
namespace ddprun::test {

inline constexpr const char* openssl_program = "/usr/bin/openssl";

inline void run_tool(
    const char* tool,
    const Words& words,
    const std::map<std::string, std::string>& variables = {}) {
    Running::Options options;
    options.arguments = words;
    options.environment = variables;
    Running running(tool, options);
    const auto code = running.wait_for_code();
    const auto said = running.out() + running.err();
    REQUIRE_MESSAGE(code == 0, said);
}

/// A test authority and the certificates that it has signed, in files named NAME.pem and NAME.key.
class Authority {
public:
    explicit Authority(const TempDir& dir) : dir_(dir) {
        run_tool(openssl_program, request("ca") + Words{"-x509", "-days=2", "-subj=/CN=tests"});
    }

    /// Signs a certificate without a common name; `days` of -1: expired.
    void sign(const std::string& name, const std::string& alternative, int days = 2) const {
        run_tool(
            openssl_program,
            request(name) + Words{"-subj=/", "-addext=subjectAltName=" + alternative});
        run_tool(
            openssl_program,
            {"x509",
             "-req",
             "-in=" + path(name + ".pem"),
             "-out=" + path(name + ".pem"),
             "-CA=" + path("ca.pem"),
             "-CAkey=" + path("ca.key"),
             "-CAcreateserial",
             "-copy_extensions=copy",
             "-days=" + std::to_string(days)});
    }
    std::string path(const std::string& file) const { return (dir_.path() / file).string(); }

private:
    Words request(const std::string& name) const {
        return {
            "req",
            "-newkey=ec",
            "-pkeyopt=ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout=" + path(name + ".key"),
            "-out=" + path(name + ".pem")};
    }

    const TempDir& dir_;
};

}  // namespace ddprun::test
