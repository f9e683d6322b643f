#include "apps/cli/option_values.hpp"
#include "apps/ddprun/command_line.hpp"
#include "apps/ddprun/launch_plan.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

CommandLine line_of(const Words& words) { return parse_command_line(words, {}); }

Words both(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

}  // namespace

TEST_CASE("launch: with etcd nobody hosts until it is elected, at any free port unless one is said") {
    const auto launch = [](const Words& words) {
        return resolve_launch(line_of(both({"--rdzv-backend=etcd", "--rdzv-endpoint=a:5,b"}, words)), {});
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
    const CommandLine passed_over =
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
    CHECK(refused({"--rdzv-conf=protocol=https"})
              .starts_with("--rdzv-conf protocol https: etcd is asked over http only; "));
    CHECK(refused({"--rdzv-conf=protocol=ftp"}) == "--rdzv-conf protocol ftp: must be http");
    for (const char* prefix : {"jobs", "/", "//"})
        CHECK(refused({std::string("--rdzv-conf=etcd_prefix=") + prefix}) ==
              std::string("--rdzv-conf etcd_prefix ") + prefix + ": must be a path like /jobs");
}

}  // namespace ddprun
