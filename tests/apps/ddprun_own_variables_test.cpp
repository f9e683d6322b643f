#include <set>
#include <string>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/job_options.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("options: no variable of the workers is an option of a launcher among them") {
    Said line;
    std::set<std::string> own;
    for (const OptionGroup& group : option_rows(line)) {
        for (const OptionRow& row : group.rows) own.insert(variable_of(row));
    }
    // DDPRUN_NET means the same to both.
    for (const char* name : {"DDPRUN_BACKEND", "DDPRUN_CUDA_LIBRARY", "DDPRUN_DEVICE", "DDPRUN_HOSTID",
                             "DDPRUN_LIFE", "DDPRUN_MESH_KEY", "DDPRUN_NCCL_LIBRARY", "DDPRUN_NODE_ADDR",
                             "DDPRUN_NOTICE", "DDPRUN_RESTART_REASON", "DDPRUN_ROUND", "DDPRUN_RUN_ID",
                             "DDPRUN_SOCKETS_PER_PEER", "DDPRUN_SOCKET_IFNAME", "DDPRUN_TRANSPORT"}) {
        CHECK_FALSE(own.contains(name));
    }
    CHECK(own.contains("DDPRUN_NET"));
}

TEST_CASE("options: in a worker, DDPRUN_MASTER_ADDR is where the job around has its node 0") {
    const std::vector<std::string> words{"program"};
    const Environment own{{"DDPRUN_MASTER_ADDR", "10.0.0.1"}};
    CHECK(parse_command_line(words, own).master_addr == "10.0.0.1");
    Environment of_worker = own;
    of_worker["DDPRUN_RUN_ID"] = "outer-1f";
    CHECK_FALSE(parse_command_line(words, of_worker).master_addr.has_value());
    CHECK(parse_command_line({"--master-addr=10.0.0.2", "program"}, of_worker).master_addr == "10.0.0.2");
}

}  // namespace ddprun
