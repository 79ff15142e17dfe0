// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/job_spec.hpp"
#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

const std::string random_id = "00112233-4455-6677-8899-aabbccddeeff";

/// "static node1:29500 rank 1, connects" or what is wrong.
std::string rendezvous(const Words& words, const Environment& variables = {}) {
    const auto spec = resolved_with(words, variables);
    if (!spec) return spec.error().context;
    std::string text = spec->is_static.value ? "static " : "c10d ";
    text += spec->endpoint.value.to_string();
    if (spec->node_rank.value) text += " rank " + std::to_string(*spec->node_rank.value);
    if (spec->is_host.value) text += *spec->is_host.value ? ", serves" : ", connects";
    return text;
}

std::string notices(const Words& words) {
    std::string text;
    const auto spec = resolved_with(words, {});
    for (const auto& notice : spec->notices)
        text += notice.event + " ";
    return text;
}

}  // namespace

TEST_CASE("the rendezvous follows from what was given") {
    struct Row {
        Words words;
        std::string rendezvous;
        std::string run_id;
    };
    const std::vector<Row> rows{
        // No other node.
        {{}, "c10d localhost:0, serves", random_id},
        {{"--rdzv-id=mine"}, "c10d localhost:0, serves", "mine"},
        {{"--rdzv-backend=static"}, "c10d localhost:0, serves", random_id},
        {{"--nnodes=1", "--node-rank=0"}, "c10d localhost:0 rank 0, serves", random_id},
        {{"--nnodes=1", "--master-addr=h"}, "c10d localhost:0, serves", random_id},
        {{"--standalone"}, "c10d localhost:0, serves", random_id},
        {{"--standalone", "--rdzv-id=x", "--rdzv-endpoint=h:1", "--nnodes=1:3"},
         "c10d localhost:0, serves",
         random_id},
        // Nodes that come and go.
        {{"--rdzv-backend=c10d"}, "c10d localhost:29400", "none"},
        {{"--rdzv-backend=c10d", "--nnodes=2"}, "c10d localhost:29400", "none"},
        {{"--rdzv-endpoint=h"}, "c10d h:29400", "none"},
        {{"--rdzv-endpoint=h:7", "--nnodes=2:3"}, "c10d h:7", "none"},
        {{"--rdzv-endpoint=h:0"}, "c10d h:0", random_id},
        {{"--rdzv-backend=c10d", "--rdzv-endpoint=[::1]:7", "--rdzv-id="},
         "c10d [::1]:7",
         random_id},
        {{"--rdzv-backend=c10d", "--rdzv-endpoint=h:7", "--nnodes=2", "--node-rank=1"},
         "c10d h:7 rank 1",
         "none"},
        {{"--rdzv-backend=c10d", "--rdzv-endpoint=h:7", "--rdzv-conf=is_host=0"},
         "c10d h:7, connects",
         "none"},
        // Fixed places.
        {{"--rdzv-endpoint=h:7"}, "static h:7 rank 0, serves", "none"},
        {{"--rdzv-endpoint=[::1]:7", "--rdzv-id="}, "static [::1]:7 rank 0, serves", random_id},
        {{"--master-port=7"}, "static 127.0.0.1:7 rank 0, serves", "none"},
        {{"--master-addr=h", "--master-port=7"}, "static h:7 rank 0, serves", "none"},
        {{"--rdzv-backend=static", "--rdzv-endpoint=h:7", "--nnodes=2", "--node-rank=1"},
         "static h:7 rank 1, connects",
         "none"},
        {{"--rdzv-endpoint=h:7", "--nnodes=2", "--node-rank=1"},
         "static h:7 rank 1, connects",
         "none"},
        {{"--nnodes=2", "--master-addr=h"}, "static h:29500 rank 0, serves", "none"},
        {{"--nnodes=2", "--master-addr=h", "--node-rank=1"},
         "static h:29500 rank 1, connects",
         "none"},
        {{"--nnodes=2", "--master_addr=[fe80::1]", "--master_port=7", "--node_rank=1"},
         "static [fe80::1]:7 rank 1, connects",
         "none"},
        {{"--nnodes=2", "--master-addr=fe80::1", "--node-rank=1"},
         "static [fe80::1]:29500 rank 1, connects",
         "none"},
        {{"--nnodes=2", "--master-addr=h", "--rdzv-conf=rank=1"},
         "static h:29500 rank 1, connects",
         "none"},
        {{"--nnodes=2", "--node-rank=1"}, "static 127.0.0.1:29500 rank 1, connects", "none"},
        {{"--nnodes=1:2", "--master-addr=h", "--rdzv-id=x"}, "static h:29500 rank 0, serves", "x"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.words);
        CHECK(rendezvous(row.words) == row.rendezvous);
        CHECK(resolved_with(row.words, {})->run_id.value == row.run_id);
    }
}

TEST_CASE("a batch system's variables mean what the options mean") {
    CHECK(
        rendezvous(
            {},
            {{"PET_NNODES", "2"},
             {"PET_NODE_RANK", "1"},
             {"PET_MASTER_ADDR", "h"},
             {"PET_MASTER_PORT", "23456"}}) == "static h:23456 rank 1, connects");
    CHECK(rendezvous({}, {{"PET_MASTER_PORT", "7"}}) == "static 127.0.0.1:7 rank 0, serves");
    CHECK(
        rendezvous({}, {{"PET_STANDALONE", "1"}, {"PET_NNODES", "1:2"}}) ==
        "c10d localhost:0, serves");
    CHECK(
        rendezvous({}, {{"PET_RDZV_BACKEND", "c10d"}, {"PET_RDZV_ENDPOINT", "h"}}) ==
        "c10d h:29400");
}

TEST_CASE("with etcd no node serves by its place or address") {
    for (const std::string backend : {"etcd", "etcd-v2"}) {
        const auto spec = resolved_with(
            {"--nnodes=1:3",
             "--rdzv-backend=" + backend,
             "--rdzv-id=j",
             "--rdzv-endpoint=e1, e2:99",
             "--rdzv-conf=etcd_prefix=/mine,keep_alive_interval=2,keep_alive_max_attempt=3"},
            {});
        REQUIRE(spec.has_value());
        const auto config = to_agent_config(*spec);
        REQUIRE(config.rendezvous.election.has_value());
        const auto& etcd = std::get<agent::EtcdPlan>(config.rendezvous.election->engine);
        CHECK(etcd.members == std::vector<Endpoint>{{"e1", 2'379}, {"e2", 99}});
        CHECK(etcd.prefix == "/mine");
        CHECK(
            config.rendezvous.election->conf ==
            "etcd_prefix=/mine,keep_alive_interval=2,keep_alive_max_attempt=3");
        CHECK_FALSE(config.rendezvous.is_host);
        // A leader follows another well before any fence ends.
        CHECK(config.join.settings.lease == std::chrono::seconds{20});
    }
}

TEST_CASE("how etcd is reached follows from the endpoint, --rdzv-conf and a variable") {
    const Words etcd{"--rdzv-backend=etcd", "--rdzv-id=j"};
    const auto access_with = [&](Words words, const Environment& environment = {}) {
        words.insert(words.begin(), etcd.begin(), etcd.end());
        const auto spec = resolved_with(words, environment);
        REQUIRE(spec.has_value());
        CHECK(spec->environment.count("DDPRUN_ETCD_PASSWORD") == 0);
        CHECK(
            std::get<agent::EtcdPlan>(spec->election.value->engine).members ==
            std::vector<Endpoint>{{"e1", 2'379}, {"e2", 99}});
        return spec->etcd_access;
    };
    CHECK_FALSE(access_with({"--rdzv-endpoint=e1,e2:99"}).is_encrypted);
    CHECK(access_with({"--rdzv-endpoint=https://e1,e2:99"}).is_encrypted);
    CHECK(access_with({"--rdzv-endpoint=https://e1/,https://e2:99/"}).is_encrypted);
    const Words encrypted{"--rdzv-endpoint=e1,e2:99", "--rdzv-conf=protocol=https,cert=/c"};
    CHECK(access_with(encrypted).is_encrypted);
    CHECK(access_with(encrypted).own->path == "/c");
    const Words user{"--rdzv-endpoint=e1,e2:99", "--rdzv-conf=etcd_user=u"};
    CHECK(access_with(user, {{"DDPRUN_ETCD_PASSWORD", "p"}}).password == "p");
    const Words file{"--rdzv-endpoint=e1,e2:99", "--rdzv-conf=etcd_user=u,etcd_password_file=/p"};
    CHECK(access_with(file, {{"DDPRUN_ETCD_PASSWORD", "p"}}).password.empty());
    CHECK(access_with(file).password_file->path == "/p");
}

TEST_CASE("with a Lease of Kubernetes no node serves by its place or address") {
    const Environment pod{
        {"KUBERNETES_SERVICE_HOST", "10.96.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
    const auto in_pod = [&](const std::string& backend, Words words, Environment variables) {
        words.insert(words.begin(), {"--nnodes=2:4", "--rdzv-backend=" + backend});
        return resolved_with(words, variables);
    };
    for (const std::string backend : {"k8s", "kubernetes"}) {
        const auto spec = in_pod(backend, {"--rdzv-endpoint=ml/bert.large"}, pod);
        REQUIRE(spec.has_value());
        const auto config = to_agent_config(*spec);
        CHECK(
            std::get<witness::kubernetes::LeasePlace>(config.rendezvous.election->engine) ==
            witness::kubernetes::LeasePlace{{"10.96.0.1", 443}, "ml", "bert.large"});
        CHECK(config.join.run_id == "bert.large");
        CHECK(config.join.settings.lease == std::chrono::seconds{30});
        CHECK(spec->service_account == "/var/run/secrets/kubernetes.io/serviceaccount");
    }
    // A shorter lease is raised to the shortest with a Lease.
    const auto short_lease = in_pod(
        "k8s",
        {"--rdzv-endpoint=bert", "--rdzv-conf=keep_alive_interval=5,keep_alive_max_attempt=5"},
        pod);
    REQUIRE(short_lease.has_value());
    CHECK(to_agent_config(*short_lease).join.settings.lease == std::chrono::seconds{30});
    const auto named = in_pod(
        "k8s", {"--rdzv-endpoint=bert", "--rdzv-id=j", "--rdzv-conf=service_account=/sa"}, pod);
    REQUIRE(named.has_value());
    CHECK(named->run_id.value == "j");
    CHECK(named->service_account == "/sa");
    CHECK(
        describe(std::get<witness::kubernetes::LeasePlace>(named->election.value->engine)) ==
        "bert");

    const auto refusal = [&](const Words& words, const Environment& variables) {
        const auto spec = in_pod("k8s", words, variables);
        return spec ? "accepted" : spec.error().context;
    };
    CHECK(
        refusal({}, pod) ==
        "--rdzv-backend: 'k8s': give the Lease of this job: --rdzv-endpoint=[NAMESPACE/]NAME");
    CHECK(refusal({"--rdzv-endpoint=bert"}, {})
              .starts_with("--rdzv-backend: 'k8s': a Lease is for nodes in pods of Kubernetes"));
    for (const std::string port : {"0", "x", "65536"})
        CHECK(refusal(
                  {"--rdzv-endpoint=bert"},
                  {{"KUBERNETES_SERVICE_HOST", "h"}, {"KUBERNETES_SERVICE_PORT", port}})
                  .starts_with("KUBERNETES_SERVICE_PORT: '"));
    for (const std::string name :
         {"ml/",
          "/bert",
          "a/b/c",
          "ml/Bert",
          "ml/b_t",
          "ml/-b",
          "ml/b..t",
          "m.l/bert",
          "ml/b%2f",
          "k8s://ml/bert"}) {
        CAPTURE(name);
        CHECK(refusal({"--rdzv-endpoint=" + name}, pod)
                  .starts_with("--rdzv-endpoint: '" + name + "': accepted is [NAMESPACE/]NAME"));
    }
}

TEST_CASE("nodes elect another server by default, where a majority can be left") {
    struct Row {
        Words words;
        /// Whether they do; else the origin.
        std::string standby;
    };
    const std::string no_majority =
        "fewer than 3 nodes have no majority without one of them, unless there is a --rdzv-witness";
    const std::string given = "--rdzv-standby, but ";
    const auto one_server = given + "the nodes elect the server by an engine";
    const auto too_few = given + no_majority;
    const auto two_halves = given + "MIN of --nnodes is at most half of MAX";
    const auto one_machine = given + "all nodes are on this machine";
    const std::string by_default = "default, but ";
    const std::vector<Row> rows{
        {{"--nnodes=3", "--rdzv-endpoint=h"}, "nodes"},
        {{}, by_default + "all nodes are on this machine"},
        {{"--nnodes=2", "--rdzv-endpoint=h"}, by_default + no_majority},
        // A short lease is not made longer unless it is asked for.
        {{"--nnodes=3",
          "--rdzv-endpoint=h",
          "--rdzv-conf=keep_alive_interval=4,keep_alive_max_attempt=2"},
         by_default + "the lease is shorter than 12 s"},
        {{"--nnodes=3",
          "--rdzv-endpoint=h",
          "--rdzv-conf=keep_alive_interval=4,keep_alive_max_attempt=3"},
         "nodes"},
        {{"--nnodes=3", "--rdzv-endpoint=h", "--rdzv-standby=off"}, "--rdzv-standby"},
        {{"--nnodes=3", "--rdzv-endpoint=h", "--rdzv-standby=auto"}, "nodes"},
        {{"--nnodes=2:3", "--rdzv-endpoint=10.0.0.1:7", "--rdzv-standby=auto"}, "nodes"},
        {{"--nnodes=3:5", "--rdzv-endpoint=[fe80::1]", "--rdzv-standby=auto"}, "nodes"},
        {{"--rdzv-standby=auto"}, one_machine},
        {{"--standalone", "--rdzv-standby=auto"}, one_machine},
        {{"--nnodes=3", "--rdzv-endpoint=localhost", "--rdzv-standby=auto"}, one_machine},
        {{"--nnodes=3", "--rdzv-endpoint=127.0.0.1", "--rdzv-standby=auto"}, one_machine},
        {{"--nnodes=3", "--rdzv-endpoint=[::1]", "--rdzv-standby=auto"}, one_machine},
        {{"--nnodes=2", "--rdzv-endpoint=h", "--rdzv-standby=auto"}, too_few},
        {{"--nnodes=1:2", "--rdzv-endpoint=h", "--rdzv-standby=auto"}, too_few},
        {{"--nnodes=2:4", "--rdzv-endpoint=h", "--rdzv-standby=auto"}, two_halves},
        {{"--nnodes=1:3", "--rdzv-endpoint=h", "--rdzv-standby=auto"}, two_halves},
        {{"--nnodes=3", "--master-addr=h", "--rdzv-standby=auto"},
         given + "node 0 serves, with static rendezvous"},
        {{"--nnodes=3",
          "--rdzv-backend=etcd",
          "--rdzv-id=j",
          "--rdzv-endpoint=e",
          "--rdzv-standby=auto"},
         one_server}};
    for (const auto& row : rows) {
        CAPTURE(row.words);
        const auto spec = resolved_with(row.words, {});
        REQUIRE(spec.has_value());
        const bool has_voters = spec->election.value && spec->election.value->has_voters();
        CHECK(has_voters == (spec->failover.value == control::Failover::nodes));
        CHECK((has_voters ? "nodes" : spec->failover.origin) == row.standby);
        const auto config = to_agent_config(*spec);
        CHECK(config.rendezvous.has_voters() == has_voters);
        CHECK(config.join.settings.failover == spec->failover.value);
    }
    CHECK(
        rendezvous({"--nnodes=3", "--rdzv-endpoint=h", "--rdzv-standby=on"}) ==
        "--rdzv-standby: 'on': accepted are auto and off");
}

TEST_CASE("several endpoints are for nodes that elect the server") {
    const auto typed = [](const Words& words) -> std::string {
        const auto spec = resolved_with(words, {});
        if (!spec) return spec.error().context;
        CHECK(spec->endpoint.value == spec->endpoints().front());
        return to_agent_config(*spec).rendezvous.typed_endpoint();
    };
    CHECK(typed({"--nnodes=3", "--rdzv-endpoint=a, b:7,[fe80::1]:9"}) == "a:29400,b:7,[fe80::1]:9");
    // More nodes than a majority may be lost, since the user has named where others serve.
    CHECK(typed({"--nnodes=1:4", "--rdzv-endpoint=a,b"}) == "a:29400,b:29400");
    const auto refused = [&](const Words& words, const std::string& why) {
        const auto text = typed(words);
        CAPTURE(text);
        CHECK(text.starts_with("--rdzv-endpoint: '"));
        CHECK(text.ends_with(
            "': several endpoints are for nodes that elect the server, and here they do not: " +
            why));
    };
    refused({"--nnodes=3", "--rdzv-endpoint=a,b", "--rdzv-standby=off"}, "--rdzv-standby is off");
    refused(
        {"--nnodes=2", "--rdzv-endpoint=a,b"},
        "fewer than 3 nodes have no majority without one of them, unless there is a "
        "--rdzv-witness");
    refused({"--nnodes=3", "--rdzv-endpoint=a,localhost"}, "all nodes are on this machine");
    refused(
        {"--nnodes=3", "--rdzv-endpoint=a,b", "--rdzv-conf=keep_alive_interval=2"},
        "the lease is shorter than 12 s");
    // Fixed places have one address.
    CHECK(typed({"--nnodes=3", "--node-rank=1", "--rdzv-endpoint=a:1,b:1"})
              .starts_with(
                  "--rdzv-endpoint: 'a:1,b:1': with static rendezvous (--node-rank) there is "));
}

TEST_CASE("a witness makes two nodes enough to elect the server") {
    const auto witness = [](const Words& words) -> std::string {
        const auto spec = resolved_with(words, {});
        if (!spec) return spec.error().context;
        const auto config = to_agent_config(*spec);
        REQUIRE(config.rendezvous.has_voters());
        const auto& typed = config.rendezvous.voters()->witness;
        return typed ? typed->to_string() : "none";
    };
    CHECK(witness({"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=w"}) == "w:29400");
    CHECK(witness({"--nnodes=1:2", "--rdzv-endpoint=a,b", "--rdzv-witness=w:7"}) == "w:7");
    CHECK(
        witness({"--nnodes=1:4", "--rdzv-endpoint=a", "--rdzv-witness=[fe80::9]:7"}) ==
        "[fe80::9]:7");
    CHECK(witness({"--nnodes=3", "--rdzv-endpoint=a"}) == "none");

    const auto refused = [&](const Words& words, const std::string& given, const std::string& why) {
        CHECK(witness(words) == "--rdzv-witness: '" + given + "': " + why);
    };
    const std::string useless =
        "a witness is for nodes that elect the server, and here they do not: ";
    refused(
        {"--nnodes=1", "--rdzv-endpoint=a", "--rdzv-witness=w"},
        "w:29400",
        useless + "a job of one node has no other server");
    refused(
        {"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=w", "--rdzv-standby=off"},
        "w:29400",
        useless + "--rdzv-standby is off");
    refused(
        {"--nnodes=2", "--master-addr=h", "--rdzv-witness=w"},
        "w:29400",
        useless + "node 0 serves, with static rendezvous");
    refused(
        {"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=w:0"},
        "w:0",
        "accepted is HOST[:PORT], with a port above 0");
    refused(
        {"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=localhost"},
        "localhost",
        "the witness is a machine that no node runs on: give the address at which all nodes reach "
        "it");
    refused(
        {"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=a:29400"},
        "a:29400",
        "this is an endpoint too: a ddprun-rendezvous there leads the job, and nodes do not vote");
    for (const std::string engine : {"etcd://h:2379", "k8s://space/name"})
        refused(
            {"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=" + engine},
            engine,
            "the witness is a ddprun-rendezvous, HOST[:PORT]; etcd and Kubernetes need none and "
            "elect the server themselves: --rdzv-backend=etcd or k8s");
    CHECK(witness({"--nnodes=2", "--rdzv-endpoint=a", "--rdzv-witness=w:x"})
              .starts_with("--rdzv-witness: "));
}

TEST_CASE("where nodes vote a lease is long enough for an election") {
    const auto lease = [](const std::string& standby, const std::string& interval) {
        const auto spec = resolved_with(
            {"--nnodes=3",
             "--rdzv-endpoint=h",
             "--rdzv-standby=" + standby,
             "--rdzv-conf=keep_alive_max_attempt=3,keep_alive_interval=" + interval},
            {});
        return in_seconds(to_agent_config(*spec).join.settings.lease);
    };
    CHECK(lease("auto", "2") == 12);
    CHECK(lease("auto", "4") == 12);
    CHECK(lease("auto", "5") == 15);
    CHECK(lease("off", "2") == 6);
}

TEST_CASE("a job has no name that would reach the server cut or changed") {
    const auto named = [](const std::string& id) {
        return rendezvous({"--rdzv-backend=c10d", "--rdzv-endpoint=[::1]:7", "--rdzv-id=" + id});
    };
    const std::string accepted = "--rdzv-id: accepted is UTF-8 text of at most 255 bytes";
    const std::string longest(255, 'a');
    CHECK(resolved_with({"--rdzv-id=" + longest}, {})->run_id.value == longest);
    CHECK(resolved_with({"--rdzv-id=j\xC3\xA9\n\""}, {})->run_id.value == "j\xC3\xA9\n\"");
    CHECK(named(longest + "a").starts_with(accepted));
    CHECK(named(std::string(128, '"')).starts_with(accepted));
    CHECK(named("j\xFF").starts_with(accepted));
}

TEST_CASE("a rendezvous that cannot be is refused with what to give instead") {
    const auto refused = [](const Words& words, const std::string& beginning) {
        const auto answer = rendezvous(words);
        CAPTURE(answer);
        CHECK(answer.starts_with(beginning));
    };
    refused({"--nnodes=2"}, "--nnodes: '2': more than one node needs --rdzv-endpoint=HOST:PORT");
    refused({"--rdzv-backend=etcd-v2"}, "--rdzv-backend: 'etcd-v2': give the members of etcd");
    const Words etcd{"--rdzv-backend=etcd", "--rdzv-endpoint=e1,e2:99"};
    refused(etcd, "--rdzv-backend: 'etcd': give the job a name, --rdzv-id=NAME");
    const auto with = [](Words words, const std::string& more) {
        words.insert(words.end(), {"--rdzv-id=j", more});
        return words;
    };
    refused(with(etcd, "--rdzv-endpoint=e1,,e2"), "--rdzv-endpoint: ");
    refused(with(etcd, "--rdzv-endpoint=e1,e2:0"), "--rdzv-endpoint: 'e2:0': etcd has no port 0");
    refused(with(etcd, "--rdzv-conf=protocol=ftp"), "--rdzv-conf protocol: 'ftp': accepted are");
    refused(
        with(etcd, "--rdzv-conf=cacert=/a"),
        "--rdzv-conf cacert: '/a': it is for https: add protocol=https");
    refused(
        with(etcd, "--rdzv-conf=protocol=https,key=/a"),
        "--rdzv-conf key: '/a': give the certificate of this key too");
    refused(
        with(etcd, "--rdzv-conf=etcd_user=u"),
        "--rdzv-conf etcd_user: 'u': give the password of this user");
    refused(
        with(etcd, "--rdzv-conf=etcd_password_file=/p"),
        "--rdzv-conf etcd_password_file: give the user of this password too");
    refused(
        with(with(etcd, "--rdzv-endpoint=http://e1,e2"), "--rdzv-conf=protocol=https"),
        "--rdzv-endpoint: 'http://e1,e2': all members and --rdzv-conf have the same protocol");
    refused(with(etcd, "--rdzv-endpoint=https://e1,http://e2"), "--rdzv-endpoint: ");
    std::string many = "--rdzv-endpoint=e";
    for (int i = 0; i < 16; ++i)
        many += ",e";
    refused(with(etcd, many), "--rdzv-endpoint: ");
    refused(
        {"--rdzv-backend=static", "--rdzv-endpoint=h", "--nnodes=2"},
        "--rdzv-endpoint: 'h': static rendezvous needs HOST:PORT");
    refused(
        {"--nnodes=2", "--node-rank=0", "--rdzv-endpoint=a,b"},
        "--rdzv-endpoint: 'a,b': with static rendezvous (--node-rank) there is one endpoint");
    refused({"--master-port=0"}, "--master-port: '0': accepted are 1 to 65535");
    refused({"--master-port=x"}, "--master-port: 'x': accepted are 1 to 65535");
    refused({"--master-port=65536"}, "--master-port: '65536': accepted are 1 to 65535");
    refused(
        {"--nnodes=2", "--master-addr=h:7"},
        "--master-addr: 'h:7': the port has an option of its own, --master-port");
    refused({"--nnodes=2", "--master-addr=a b"}, "--master-addr: endpoint 'a b': the host must be");
    refused({"--nnodes=2+1", "--master-addr=h"}, "--nnodes: '2+1': with static rendezvous every");
    refused(
        {"--nnodes=2", "--master-addr=h", "--node-rank=2"},
        "--node-rank: '2': accepted are 0 to 1 with --nnodes=2");
    refused(
        {"--nnodes=2", "--master-addr=h", "--rdzv-conf=is_host=0"},
        "--rdzv-conf is_host: 'false': with static rendezvous node rank 0 serves");
    refused({"--rdzv-endpoint=h:99999"}, "--rdzv-endpoint: endpoint 'h:99999': the port must be");
}

TEST_CASE("what was decided without being asked for is noted") {
    CHECK(notices({"--rdzv-endpoint=h:7", "--nnodes=2", "--node-rank=1"}) == "");
    CHECK(notices({"--nnodes=2", "--master-addr=h"}) == "rendezvous.node_zero ");
    CHECK(notices({"--nnodes=2", "--node-rank=1"}) == "rendezvous.node_zero ");
    CHECK(notices({"--nnodes=1:2", "--master-addr=h", "--node-rank=0"}) == "nodes.fixed ");
    CHECK(
        notices({"--rdzv-backend=c10d", "--rdzv-endpoint=h", "--master-addr=h"}) ==
        "option.ignored ");
    CHECK(
        notices({"--rdzv-backend=c10d", "--rdzv-endpoint=h", "--rdzv-conf=timeout=5"}) ==
        "option.ignored ");
}

TEST_CASE("static rendezvous takes torch's time limit for its own") {
    const auto join_timeout = [](const std::string& conf) {
        return in_seconds(
            resolved_with({"--nnodes=2", "--master-addr=h", "--rdzv-conf=" + conf}, {})
                ->join_timeout.value);
    };
    CHECK(join_timeout("timeout=20") == 20);
    CHECK(join_timeout("timeout=20,join_timeout=30") == 30);
}
