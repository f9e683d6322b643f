#include "launcher/failure_report.hpp"

#include <csignal>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Failure worker_failure() {
    Failure failure;
    failure.kind = Failure::Kind::worker_failed;
    failure.node_rank = 1;
    failure.host = "gpu07";
    failure.rank = 5;
    failure.local_rank = 1;
    failure.pid = 4242;
    failure.exit_code = 7;
    return failure;
}

}  // namespace

TEST_CASE("a worker that exited") {
    CHECK(failure_report("train.py", worker_failure(), 7) ==
          "train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7\n"
          "  exiting with code 7");
}

TEST_CASE("a worker that a signal ended") {
    Failure failure = worker_failure();
    failure.exit_code = 139;
    failure.signal = SIGSEGV;
    failure.core_dumped = true;
    CHECK(failure_report("a.out", failure, 139) ==
          "a.out failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: "
          "signal 11 (SIGSEGV, core dumped)\n  exiting with code 139");
}

TEST_CASE("a worker that could not be started") {
    Failure failure = worker_failure();
    failure.pid = 0;
    failure.exit_code = 127;
    failure.message = "cannot start './nope': no such file";
    CHECK(failure_report("./nope", failure, 127) ==
          "./nope failed; first failure: rank 5 (local rank 1) on node 1 (gpu07) could not be started\n"
          "  cannot start './nope': no such file\n  exiting with code 127");
}

TEST_CASE("a lost node") {
    Failure failure;
    failure.kind = Failure::Kind::node_lost;
    failure.node_rank = 3;
    failure.host = "gpu03";
    failure.message = "connection reset";
    CHECK(
        failure_report("train.py", failure, 69) ==
        "train.py was stopped, because node 3 (gpu03) was lost\n  connection reset\n  exiting with code 69");
    failure.host.clear();
    CHECK(failure_report("train.py", failure, 69).find("because node 3 was lost") != std::string::npos);
}

TEST_CASE("a signal to an agent") {
    Failure failure;
    failure.kind = Failure::Kind::signalled;
    failure.node_rank = 0;
    failure.host = "login";
    failure.signal = SIGTERM;
    CHECK(failure_report("train.py", failure, 143) ==
          "train.py was stopped by SIGTERM sent to ddprun on node 0 (login)\n  exiting with code 143");
}

}  // namespace ddprun
