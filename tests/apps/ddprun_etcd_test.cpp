#include <fmt/core.h>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "rendezvous/control/control_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

Said line_of(const Words& words) { return parse_command_line(words, {}); }

Words both(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

}  // namespace

TEST_CASE("launch: with etcd nobody hosts until it is elected, at any free port unless one is said") {
    const auto launch = [](const Words& words) {
        return resolve_launch(JobPlan(line_of(both({"--rdzv-backend=etcd", "--rdzv-endpoint=a:5,b"}, words))),
                              {});
    };
    const LaunchOptions options = launch({"--nnodes=2:4", "p"});
    REQUIRE(options.etcd);
    CHECK(options.etcd->endpoints == std::vector<Endpoint>{{"a", 5}, {"b", 2379}});
    CHECK(options.etcd->prefix == "/torchelastic/p2p");
    CHECK(options.hosting == Hosting::no);
    CHECK(options.listen.any);
    CHECK(options.master == Endpoint{"", 0});
    CHECK(options.node_rank == kUnnumbered);
    CHECK(launch({"--nnodes=2", "--master-port=7", "--node-rank=1", "p"}).master.port == 7);
    CHECK(launch({"--nnodes=2", "--node-rank=1", "p"}).node_rank == 1);
    CHECK(launch({"--nnodes=2", "--rdzv-conf=etcd_prefix=/a/b//,protocol=http", "p"}).etcd->prefix == "/a/b");
    CHECK(!launch({"--standalone", "p"}).etcd);
    const LaunchOptions alone = launch({"--nnodes=1", "p"});
    CHECK((!alone.etcd && alone.hosting == Hosting::yes));
    CHECK(line_of({"--rdzv-backend=etcd-v2", "--rdzv-endpoint=a", "--nnodes=2", "p"}).etcd);
    const Said passed_over =
        line_of({"--rdzv-backend=etcd", "--rdzv-endpoint=a", "--master-addr=h", "--nnodes=2", "p"});
    REQUIRE(passed_over.rdzv_conf.complaints.size() == 1);
    CHECK(passed_over.rdzv_conf.complaints.front().starts_with("--master-addr h: passed over; "));
}

TEST_CASE("command line: what etcd cannot be asked with is refused") {
    const auto refused = [](const Words& words) {
        try {
            line_of(both(words, {"--nnodes=2", "p"}));
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(refused({"--rdzv-backend=etcd"}) ==
          "--rdzv-backend etcd: needs --rdzv-endpoint HOST:PORT, where etcd is");
    CHECK(refused({"--rdzv-backend=zookeeper"}) == "--rdzv-backend zookeeper: must be static, c10d or etcd");
    for (const char* endpoint : {"a,", ",a", "a b", "http://a:5", "a:x,b"}) {
        CHECK(refused({"--rdzv-backend=etcd", std::string("--rdzv-endpoint=") + endpoint}) ==
              std::string("--rdzv-endpoint ") + endpoint +
                  ": must be HOST or HOST:PORT; of etcd several, with commas between");
    }
    CHECK(refused({"--rdzv-backend=etcd", "--rdzv-endpoint=a:0"}) ==
          "--rdzv-endpoint a:0: must be HOST:PORT, where etcd is");
    CHECK(refused({"--rdzv-backend=c10d", "--rdzv-endpoint=a,b"}) ==
          "--rdzv-endpoint a,b: several endpoints are for --rdzv-backend etcd only");
    CHECK(refused({"--rdzv-conf=protocol=ftp"}) == "--rdzv-conf protocol ftp: must be http or https");
    for (const char* key : {"key", "ssl_cert_key"})
        CHECK(refused({"--rdzv-backend=etcd", "--rdzv-endpoint=a",
                       fmt::format("--rdzv-conf=protocol=https,{}=k", key)}) ==
              fmt::format("--rdzv-conf {} k: needs cert=FILE, the certificate that it is the key of", key));
    for (const char* prefix : {"jobs", "/", "//"})
        CHECK(refused({std::string("--rdzv-conf=etcd_prefix=") + prefix}) ==
              std::string("--rdzv-conf etcd_prefix ") + prefix + ": must be a path like /jobs");
}

TEST_CASE("launch: etcd is asked over TLS where that is said, by torchrun's keys of both its backends") {
    const auto etcd_of = [](const std::string& conf, const Environment& environment = {}) {
        const Said line =
            line_of({"--rdzv-backend=etcd", "--rdzv-endpoint=a", "--nnodes=2", "--rdzv-conf=" + conf, "p"});
        CHECK(line.rdzv_conf.complaints.empty());
        return resolve_launch(JobPlan(line), {.environment = environment}).etcd.value();
    };
    CHECK(!etcd_of("protocol=http").tls);
    CHECK(!etcd_of("etcd_prefix=/a").tls);
    for (const char* conf : {"protocol=https,cacert=/a,cert=b=c,key=d",
                             "ssl_cert=b=c, protocol = HTTPS ,ca_cert=/a,ssl_cert_key=d"}) {
        const auto tls = etcd_of(conf).tls;
        REQUIRE(tls);
        CHECK((tls->ca.path == "/a" && tls->cert.path == "b=c" && tls->key.path == "d"));
    }
    CHECK(etcd_of("protocol=https,ssl_cert=x").tls->cert.option == "--rdzv-conf ssl_cert");
    CHECK(!etcd_of("protocol=https,cert=x").tls->key.is_given());
    CHECK(!etcd_of("protocol=https").tls->ca.is_given());
    const Environment trusted{{"SSL_CERT_FILE", "/t"}};
    CHECK(etcd_of("protocol=https", trusted).tls->ca.option == "SSL_CERT_FILE");
    CHECK(etcd_of("protocol=https", trusted).tls->ca.path == "/t");
    CHECK(etcd_of("protocol=https,cacert=/a", trusted).tls->ca.path == "/a");
}

TEST_CASE("command line: files for TLS that are in vain without it are named") {
    const auto complaints = [](const std::string& backend, const std::string& conf) {
        return line_of({"--rdzv-backend=" + backend, "--rdzv-endpoint=a", "--nnodes=2", "--rdzv-conf=" + conf,
                        "p"})
            .rdzv_conf.complaints;
    };
    const std::string why = ": passed over, etcd is asked over http; protocol=https asks it over TLS";
    CHECK(complaints("etcd", "key=k,cacert=a") ==
          Words{"--rdzv-conf cacert a" + why, "--rdzv-conf key k" + why});
    CHECK(complaints("etcd", "protocol=http,ssl_cert=c") == Words{"--rdzv-conf ssl_cert c" + why});
    CHECK(complaints("c10d", "cacert=a,protocol=https").empty());
}

}  // namespace ddprun
