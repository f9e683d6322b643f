#include <set>
#include <string>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/command_line.hpp"
#include "apps/ddprun/option_rows.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("options: no variable of the workers is an option of a launcher among them") {
    CommandLine line;
    std::set<std::string> own;
    for (const OptionGroup& group : option_rows(line)) {
        for (const OptionRow& row : group.rows) own.insert(variable_of(row));
    }
    // DDPRUN_NET means the same to both.
    for (const char* name :
         {"DDPRUN_BACKEND", "DDPRUN_CUDA_LIBRARY", "DDPRUN_DEVICE", "DDPRUN_HOSTID", "DDPRUN_LIFE",
          "DDPRUN_NCCL_LIBRARY", "DDPRUN_NOTICE", "DDPRUN_RESTART_REASON", "DDPRUN_ROUND", "DDPRUN_RUN_ID",
          "DDPRUN_SOCKETS_PER_PEER", "DDPRUN_SOCKET_IFNAME", "DDPRUN_TRANSPORT"}) {
        CHECK_FALSE(own.contains(name));
    }
    CHECK(own.contains("DDPRUN_NET"));
}

}  // namespace ddprun
