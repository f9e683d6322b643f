// MpirunMachine: where Open MPI's mpirun runs, which it tells all its tasks until its version 4. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// "1106640896.0;tcp://10.0.2.15,192.168.1.4:36347;tcp6://[fd00::2]:55765"
inline constexpr const char* kMpirunUri = "OMPI_MCA_orte_hnp_uri";

// Returns the addresses of IPv4 in such a text; none where it is another one.
std::vector<std::string> addresses_of_mpirun(std::string_view uri);

struct MpirunMachine {
    std::string address;   // that of its addresses which looks most like one of the caller's machine
    bool is_this = false;  // mpirun runs on the caller's machine
};

// `addresses` are mpirun's, one at least; `own` are all those of the caller's machine. One address may be on
// every machine (a bridge of containers has it): mpirun is here where all are.
MpirunMachine find_mpirun(std::vector<std::string> addresses, const std::vector<std::string>& own);

}  // namespace base
}  // namespace ddprun
